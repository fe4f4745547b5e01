// The Python module gradwire._core: converts values, and nothing else.

#include <torch/extension.h>

#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "gradwire/attachment.h"
#include "gradwire/compressor.h"
#include "gradwire/methods.h"
#include "methods/registry.h"
#include "planner/plan.h"

namespace py = pybind11;

namespace gradwire {
namespace {

py::dict to_python(const State& state) {
  py::dict result;
  for (const auto& [key, value] : state) result[py::str(key)] = torch::jit::toPyObject(value);
  return result;
}

State to_state(const py::dict& dict) {
  State state;
  for (const auto& [key, value] : dict) {
    const auto name = py::cast<std::string>(key);
    if (THPVariable_Check(value.ptr())) {
      state[name] = py::cast<at::Tensor>(value);
    } else if (py::isinstance<py::str>(value)) {
      state[name] = py::cast<std::string>(value);
    } else if (py::isinstance<py::float_>(value)) {
      state[name] = py::cast<double>(value);
    } else if (py::isinstance<py::int_>(value)) {
      state[name] = py::cast<int64_t>(value);
    } else {
      throw std::invalid_argument("the state cannot be loaded: " + name +
                                  " is neither a tensor nor a number nor a string");
    }
  }
  return state;
}

py::dict to_python(const Counts& counts) {
  py::dict by_kind;
  for (size_t kind = 0; kind < kParameterKindNames.size(); ++kind) {
    by_kind[kParameterKindNames[kind]] = counts.code_ratio(static_cast<ParameterKind>(kind));
  }
  py::dict result;
  result["steps"] = counts.steps;
  result["payload_bytes"] = counts.payload_bytes;
  result["gradient_bytes"] = counts.gradient_bytes;
  result["code_ratio"] = counts.code_ratio();
  result["code_ratio_by_kind"] = by_kind;
  result["sent_bytes"] = counts.sent_bytes;
  result["dense_bytes"] = counts.dense_bytes;
  result["wire_ratio"] = counts.wire_ratio();
  result["encode_seconds"] = counts.encode_seconds;
  result["decode_seconds"] = counts.decode_seconds;
  result["wait_seconds"] = counts.wait_seconds;
  return result;
}

py::dict to_python(const Stats& stats) {
  py::dict result = to_python(static_cast<const Counts&>(stats));
  result["method"] = stats.method;
  result["plan"] = stats.plan;
  result["loss_class"] = kLossClassNames[static_cast<size_t>(stats.loss_class)];
  result["recent"] = to_python(stats.recent);
  return result;
}

py::dict methods_to_python() {
  py::dict result;
  for (const MethodDescription& method : methods()) {
    py::dict options;
    for (const OptionDescription& option : method.options) {
      options[py::str(option.name)] =
          py::dict(py::arg("default") = option.default_value, py::arg("rule") = option.rule);
    }
    py::dict variants;
    for (const VariantDescription& variant : method.variants) {
      variants[py::str(variant.name)] =
          py::dict(py::arg("options") = variant.options,
                   py::arg("loss_class") = kLossClassNames[static_cast<size_t>(variant.loss_class)],
                   py::arg("keeps_residual") = variant.keeps_residual);
    }
    result[py::str(method.name)] =
        py::dict(py::arg("summary") = method.summary, py::arg("options") = options,
                 py::arg("variants") = variants, py::arg("colour") = method.colour);
  }
  return result;
}

// The scale that a GradScaler keeps, or nothing before its first use. The function may be called
// and dropped by threads that do not hold the interpreter.
std::function<at::Tensor()> to_loss_scale(const py::object& get_scale) {
  if (get_scale.is_none()) return {};
  const std::shared_ptr<py::object> shared(new py::object(get_scale), [](py::object* object) {
    const py::gil_scoped_acquire acquire;
    delete object;
  });
  return [shared] {
    const py::gil_scoped_acquire acquire;
    const py::object scale = (*shared)();
    return scale.is_none() ? at::Tensor() : py::cast<at::Tensor>(scale);
  };
}

// What takes long, or waits for a step under way, waits without the interpreter: the step may need
// it.
template <typename Function>
auto without_interpreter(const Function& function) {
  const py::gil_scoped_release release;
  return function();
}

// Name, tensor, and whether its gradient is expected to be sparse.
using ParameterTuples = std::vector<std::tuple<std::string, at::Tensor, bool>>;

std::vector<NamedParameter> to_parameters(const ParameterTuples& tuples) {
  std::vector<NamedParameter> parameters;
  for (const auto& [name, tensor, expects_sparse] : tuples) {
    parameters.push_back({name, tensor, expects_sparse});
  }
  return parameters;
}

// Called without the interpreter, while the other workers are waited for.
MakeGroup to_make_group(const py::function& make_group) {
  return [&make_group] {
    const py::gil_scoped_acquire acquire;
    return py::cast<c10::intrusive_ptr<c10d::ProcessGroup>>(make_group());
  };
}

std::shared_ptr<Attachment> attach(const std::shared_ptr<c10d::Reducer>& reducer,
                                   const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                   const ParameterTuples& parameters, const Request& request,
                                   const py::function& make_group,
                                   const std::vector<size_t>& bucket_caps,
                                   const std::shared_ptr<c10d::Logger>& logger) {
  return without_interpreter([&] {
    return Attachment::attach(reducer, group, to_parameters(parameters), request,
                              to_make_group(make_group), bucket_caps, logger);
  });
}

std::unique_ptr<Compressor> make_compressor(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                            const ParameterTuples& parameters,
                                            const Request& request,
                                            const py::function& make_group) {
  return without_interpreter([&] {
    return Compressor::make(to_parameters(parameters), group, request, to_make_group(make_group));
  });
}

Compressor::Gradients to_gradients(const py::dict& dict) {
  Compressor::Gradients gradients;
  for (const auto& [name, tensor] : dict) {
    if (!py::isinstance<py::str>(name) || !THPVariable_Check(tensor.ptr())) {
      throw std::invalid_argument("gradwire.Compressor: gradients are a dict of tensors by name");
    }
    gradients.emplace_back(py::cast<std::string>(name), py::cast<at::Tensor>(tensor));
  }
  return gradients;
}

// What an Attachment and a Compressor have in common.
template <typename Class>
void define_state_and_stats(Class& type) {
  using Self = typename Class::type;
  type.def(
          "state_dict",
          [](const Self& self) {
            return to_python(without_interpreter([&] { return self.state(); }));
          },
          "What this worker has to save for an exact resume: tensors, numbers and strings.\n\n"
          "For calls between steps. Every key begins with ``worker<i>/``.\n\n"
          "Raises:\n    RuntimeError: a step is under way, or failed.")
      .def(
          "load_state_dict",
          [](Self& self, const py::dict& dict) {
            const State state = to_state(dict);
            without_interpreter([&] { self.load_state(state); });
          },
          "Restore what ``state_dict`` gave on this worker, or what ``gradwire.merge`` made.\n\n"
          "Before the first step.\n\n"
          "Raises:\n    ValueError: the state does not fit, and nothing has changed.")
      .def(
          "stats", [](const Self& self) { return to_python(self.stats()); },
          "What this worker has encoded, sent and waited for: a ``gradwire.Stats``.\n\n"
          "Costs microseconds, from any thread, also while a step waits for the network.")
      .def(
          "residual_norm",
          [](const Self& self) {
            return without_interpreter([&] { return self.residual_norm(); });
          },
          "The norm of all that this worker keeps back; a pass over all residuals.\n\n"
          "Raises:\n    RuntimeError: a step is under way, or failed.")
      .def("__repr__", [](const Self& self) {
        return "<gradwire." + py::cast<std::string>(py::type::of<Self>().attr("__name__")) + ": " +
               self.describe() + ">";
      });
}

py::object from_json(const std::string& text) {
  return py::module_::import("json").attr("loads")(text);
}

// The fields of planner::PlanRequest, as JSON; what `gradwire plan --json` writes.
std::string plan(const std::string& request) {
  const planner::MethodModels& models = method_models();
  const planner::SweepRequest sweep = planner::sweep_request(
      planner::plan_request_from_json(nlohmann::json::parse(request), models), models);
  return planner::to_json(sweep, planner::sweep(sweep)).dump();
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  using NoLock = py::call_guard<py::gil_scoped_release>;
  module.attr("__version__") = GRADWIRE_VERSION;
  module.attr("torch_version") = GRADWIRE_TORCH_VERSION;
  module.def("methods", &methods_to_python,
             "Every method by its name, with a summary and its options, their defaults and rules.");

  py::class_<Request>(module, "Request")
      .def(py::init([](std::string method, OptionMap options, int64_t start_after,
                       std::vector<std::string> skip,
                       std::vector<std::pair<std::string, OptionMap>> per_parameter,
                       double handshake_timeout, const py::object& loss_scale) {
             return Request{.method = std::move(method),
                            .options = std::move(options),
                            .start_after = start_after,
                            .skip = std::move(skip),
                            .per_parameter = std::move(per_parameter),
                            .handshake_timeout = std::chrono::milliseconds(
                                static_cast<int64_t>(handshake_timeout * 1000)),
                            .loss_scale = to_loss_scale(loss_scale)};
           }),
           py::kw_only(), py::arg("method"), py::arg("options"), py::arg("start_after"),
           py::arg("skip"), py::arg("per_parameter"), py::arg("handshake_timeout"),
           py::arg("loss_scale"));

  py::class_<Attachment, std::shared_ptr<Attachment>> attachment(
      module, "Attachment", "What gradwire.attach returns: the handle to a model's compression.");
  define_state_and_stats(attachment);
  attachment
      .def(
          "profile",
          [](const Attachment& self) {
            return from_json(without_interpreter([&] { return self.profile(); }));
          },
          "What ``gradwire.plan`` needs to know of this job; see docs/plan.md.\n\n"
          "Raises:\n    RuntimeError: too few steps were made so far.")
      .def("before_step", &Attachment::before_step, NoLock(),
           "For ``gradwire.attach``: where ``auto`` decides. One line of text if it did.")
      .def("divide_by_active_workers", &Attachment::divide_by_active_workers,
           "For ``gradwire.attach``: which division DDP's ``join`` was asked for.");

  py::class_<Compressor> compressor(module, "Compressor",
                                    "What ``gradwire.Compressor`` is built on.");
  define_state_and_stats(compressor);
  compressor.def(py::init(&make_compressor))
      .def("start",
           [](Compressor& self, const py::dict& gradients) {
             const Compressor::Gradients named = to_gradients(gradients);
             without_interpreter([&] { self.start(named); });
           })
      .def("finish", &Compressor::finish, NoLock());

  py::class_<StateMerger>(module, "StateMerger")
      .def(py::init<>())
      .def("add", [](StateMerger& self, const py::dict& state) { self.add(to_state(state)); })
      .def("merged", [](const StateMerger& self) { return to_python(self.merged()); });

  module.def("attach", &attach);
  module.def("plan", [](const std::string& request) {
    return from_json(without_interpreter([&] { return plan(request); }));
  });
  module.def("announce_failure", &Attachment::announce_failure, NoLock());
}

}  // namespace gradwire
