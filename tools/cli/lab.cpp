#include "cli/lab.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/link_argument.h"
#include "cli/output_file.h"
#include "lab/host.h"
#include "lab/lab.h"

namespace gradwire {
namespace {

using nlohmann::json;

constexpr const char* kDescription =
    "Runs a program once on each of several emulated hosts, joined by links of a given rate.\n\n"
    "  gradwire lab --hosts 4 --rate 1gbit -- python train.py --epochs 3\n\n"
    "The program finds the variables of torchrun (RANK, WORLD_SIZE, MASTER_ADDR, ...) and those\n"
    "that name the interface. Host 0 writes to the output of this command; lines of the others\n"
    "begin with [host1], [host2], ... The program's input is empty. The exit status is the\n"
    "largest of the hosts (128 + n after signal n), leaving out hosts that were stopped because\n"
    "another had failed. Ctrl-C is passed on to every host, and a second Ctrl-C kills them.\n"
    "Everything that the command made is gone afterwards.";

struct LabOptions {
  lab::Settings lab;
  std::string rate;
  std::string delay;
  std::string loss;
  std::string json_file;
};

json to_json(const LabOptions& options, const lab::Result& result) {
  json report = {{"hosts", options.lab.hosts},     {"rate", options.rate},
                 {"threads", options.lab.threads}, {"command", options.lab.command},
                 {"seconds", result.seconds},      {"exit_status", result.status},
                 {"per_host", json::array()}};
  if (options.lab.link.bits_per_second) {
    report["rate_bits_per_second"] = *options.lab.link.bits_per_second;
  }
  if (!options.delay.empty()) report["delay"] = options.delay;
  if (!options.loss.empty()) report["loss"] = options.loss;
  for (const lab::HostResult& host : result.hosts) {
    report["per_host"].push_back({{"exit_code", host.ending.status},
                                  {"ended_by_lab", host.ending.was_stopped},
                                  {"cores", host.cores},
                                  {"tx_bytes", host.counters.sent_bytes},
                                  {"tx_packets", host.counters.sent_packets},
                                  {"rx_bytes", host.counters.received_bytes},
                                  {"rx_packets", host.counters.received_packets}});
  }
  return report;
}

void run_lab(LabOptions& options) {
  options.lab.link = parse_link(options.rate, options.delay, options.loss);
  require_writable(options.json_file);
  const lab::Result result = lab::run(options.lab);
  write_file(options.json_file, to_json(options, result).dump(2) + "\n");
  if (result.status != 0) throw CLI::RuntimeError(result.status);
}

}  // namespace

void add_lab(CLI::App& app) {
  auto options = std::make_shared<LabOptions>();
  CLI::App* command = app.add_subcommand("lab", kDescription);
  command->add_option("--hosts", options->lab.hosts, "number of emulated hosts")
      ->required()
      ->check(CLI::Range(1, lab::kMostHosts));
  command
      ->add_option("--rate", options->rate,
                   "rate of each host's link in each direction: 100mbit, 1gbit, ... or unlimited")
      ->required();
  command
      ->add_option("--threads", options->lab.threads,
                   "OMP_NUM_THREADS, and the number of cores that each host is pinned to")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--delay", options->delay,
                      "delay from host to host, e.g. 5ms (needs sch_netem)");
  command->add_option("--loss", options->loss,
                      "share of lost packets, e.g. 0.1% (needs sch_netem)");
  command
      ->add_option("--grace", options->lab.grace_seconds,
                   "seconds that hosts may go on after one has failed, and after a signal")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->add_option("--json", options->json_file,
                      "write byte counters and exit codes to this file");
  command->add_option("command", options->lab.command, "the program and its arguments, after --")
      ->required();
  command->callback([options] { run_lab(*options); });
}

}  // namespace gradwire
