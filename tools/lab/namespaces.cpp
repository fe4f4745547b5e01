#include "lab/namespaces.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <stdexcept>

namespace gradwire::lab {
namespace {

// The user is not root, so `ip` and `tc` keep only ambient capabilities when they are started.
void let_programs_manage_networks() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> capabilities{};
  if (syscall(SYS_capget, &header, capabilities.data()) != 0) throw_errno("capget");
  capabilities[0].inheritable |= 1U << CAP_NET_ADMIN;
  if (syscall(SYS_capset, &header, capabilities.data()) != 0) throw_errno("capset");
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_ADMIN, 0, 0) != 0) throw_errno("prctl");
}

void write_file(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  if (!file) throw_errno(path);
}

std::string mapped_to_itself(unsigned id) {
  return std::to_string(id) + ' ' + std::to_string(id) + " 1";
}

// IPv6 would give each interface an address and send packets about it over the links.
void silence_new_interfaces() {
  std::ofstream("/proc/sys/net/ipv6/conf/default/disable_ipv6") << 1;
}

// Puts another file in place of this one, in this mount namespace only.
void replace_file(const char* path, const std::string& text) {
  const Descriptor system(fsopen("tmpfs", FSOPEN_CLOEXEC));
  if (fsconfig(system.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return;
  const Descriptor folder(fsmount(system.get(), FSMOUNT_CLOEXEC, 0));
  const Descriptor file(openat(folder.get(), "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return;
  const Descriptor tree(open_tree(folder.get(), "file", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  move_mount(tree.get(), "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH);
}

// /sys shows the network of the process that mounted it, so it must be mounted again. The control
// groups, which are mounted below it, stay.
void replace_sys() {
  constexpr const char* kGroups = "/sys/fs/cgroup";
  const Descriptor groups(
      open_tree(AT_FDCWD, kGroups, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
  if (mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) return;
  move_mount(groups.get(), "", AT_FDCWD, kGroups, MOVE_MOUNT_F_EMPTY_PATH);
}

}  // namespace

void leave_machine_network() {
  const unsigned user = geteuid();
  const unsigned group = getegid();
  if (unshare(CLONE_NEWNET) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
      throw std::runtime_error(
          "this system lets you make no network namespace: run as root, or allow user namespaces "
          "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
          "kernel.apparmor_restrict_unprivileged_userns)");
    }
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", mapped_to_itself(user));
    write_file("/proc/self/gid_map", mapped_to_itself(group));
    let_programs_manage_networks();
  }
  silence_new_interfaces();
}

void begin_process_namespace() {
  if (unshare(CLONE_NEWPID) != 0) throw_errno("no process namespace");
}

NetworkNamespace NetworkNamespace::current() {
  Descriptor handle(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (handle.get() < 0) throw_errno("/proc/thread-self/ns/net");
  return NetworkNamespace(std::move(handle));
}

NetworkNamespace NetworkNamespace::create() {
  const NetworkNamespace home = current();
  if (unshare(CLONE_NEWNET) != 0) throw_errno("no network namespace");
  NetworkNamespace created = current();
  silence_new_interfaces();
  home.enter();
  return created;
}

void NetworkNamespace::enter() const {
  if (setns(handle_.get(), CLONE_NEWNET) != 0) throw_errno("setns");
}

Descriptor NetworkNamespace::inheritable_handle() const {
  Descriptor handle(dup(handle_.get()));
  if (handle.get() < 0) throw_errno("dup");
  return handle;
}

void settle_in(const std::string& hostname, const std::string& hosts_file) {
  if (unshare(CLONE_NEWNS | CLONE_NEWUTS) != 0) throw_errno("no mount namespace");
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) throw_errno("mount /");
  if (sethostname(hostname.data(), hostname.size()) != 0) throw_errno("sethostname");
  // Containers may forbid these mounts. Programs then see the machine's files, which seldom
  // matters.
  replace_file("/etc/hosts", hosts_file);
  replace_sys();
  mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

}  // namespace gradwire::lab
