#pragma once

// What a method is made of.
//
//   Method     one per method name and wire options: decides which parameters it compresses, makes
//              their state, and starts an Exchange for every part of a step.
//   Exchange   a part's way through a method: encode, one or more collectives, decode. It lives
//   from
//              the moment the part is ready to the moment its gradients hold the result.
//   Slot       one parameter's place in the part.
//
// A method never communicates: it hands out rounds, and src/comm launches them.

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gradwire/options.h"
#include "gradwire/stats.h"
#include "methods/buffer_pool.h"
#include "methods/device_code.h"
#include "methods/option_spec.h"

namespace gradwire {

struct Parameter {
  std::string name;
  at::Tensor tensor;

  ParameterKind kind() const {
    return tensor.dim() >= 3   ? ParameterKind::conv
           : tensor.dim() == 2 ? ParameterKind::dense
                               : ParameterKind::other;
  }
};

// A tensor that a ParameterState keeps from step to step.
struct StateTensor {
  enum class Role : uint8_t {
    residual,  // what this worker has kept back: in units of the gradient, unlike on every worker
    velocity,  // of this worker, with momentum correction: likewise, but it is not kept back
    common_velocity,  // what came of all workers': in units of the gradient, the same on all
    shared,           // the same on all workers, whatever the units of the gradient
  };
  std::string name;  // in saved states
  Role role;
  at::Tensor tensor;
};

struct Slot;

// What a method remembers of one parameter from step to step. It belongs to the parameter, never to
// a bucket: DDP makes new buckets after the first step.
class ParameterState {
 public:
  explicit ParameterState(at::Device device) : code(code_for(device)) {}
  virtual ~ParameterState() = default;
  // All that a step needs of earlier ones. The tensors are references: loading and rescaling write
  // into them.
  virtual std::vector<StateTensor> tensors() { return {}; }
  // The residual as it is now, or an undefined tensor; leaves what a step under way may still have
  // to roll back alone.
  virtual at::Tensor residual() const { return {}; }

  // For corrections around a method (momentum.h). Whoever runs an exchange calls these:
  //   before_exchange()  for the slot as the method shall see it
  //   after_exchange()   with the slot as it was, when what the method has left in the other one is
  //                      final; if before_exchange() made another, the slot still has the gradient
  //   end_step()         after all exchanges of a step and before anything else is asked of the
  //                      state. `counts`: no result of the step was other than finite, so that the
  //                      optimizer has used them all
  virtual Slot before_exchange(const Slot& slot);
  virtual void after_exchange(const Slot& /*slot*/) {}
  virtual void end_step(bool /*counts*/) {}

  const DeviceCode& code;  // for everything that is computed of the parameter
};

// What a method keeps back of a parameter at first: zeros in its shape, or nothing at all.
inline at::Tensor zero_residual(const at::Tensor& parameter, bool error_feedback) {
  if (!error_feedback) return {};
  return at::zeros(parameter.sizes(), parameter.options().dtype(at::kFloat).requires_grad(false));
}

// One parameter's place in a part. `memory` holds its gradient, in the parameter's own shape and
// strides.
struct Slot {
  const Parameter* parameter = nullptr;
  ParameterState* state = nullptr;  // null: travels uncompressed
  at::Tensor memory;

  // The gradient as contiguous fp32: the memory itself where that is possible, else a copy.
  at::Tensor load() const { return memory.to(at::kFloat).contiguous(); }
  // Somewhere to write the result: the memory itself where possible. Ends with store().
  at::Tensor result() const {
    return memory.scalar_type() == at::kFloat && memory.is_contiguous()
               ? memory
               : at::empty(memory.sizes(), memory.options().dtype(at::kFloat));
  }
  void store(const at::Tensor& result) const {
    if (!result.is_same(memory)) memory.copy_(result);
  }

  // The gradient uncompressed, in a flat part of a payload: what this worker adds to the mean.
  // Divided before it is added, as stock DDP does it, so that the sum overflows nowhere where stock
  // DDP's would not, and equals it bit for bit where the number of workers is a power of two.
  void write_share(const at::Tensor& part, int workers) const {
    at::Tensor shaped = part.view(memory.sizes());
    at::mul_out(shaped, memory.to(part.scalar_type()),
                at::scalar_tensor(1.0 / workers, part.options()));
  }
  void read_mean(const at::Tensor& part) const { memory.copy_(part.view(memory.sizes())); }
};

inline Slot ParameterState::before_exchange(const Slot& slot) { return slot; }

// Calls function(slot, its part of a flat tensor in which the slots lie one after the other).
template <typename Function>
void for_each_part(const std::vector<Slot>& slots, const at::Tensor& flat, Function&& function) {
  int64_t offset = 0;
  for (const Slot& slot : slots) {
    const int64_t length = slot.memory.numel();
    function(slot, flat.narrow(0, offset, length));
    offset += length;
  }
}

struct Step {
  int64_t number = 0;  // of compressed steps, from 1; the same on all workers
  int worker = 0;
  int workers = 1;
  float loss_scale = 1;  // what the gradients have been multiplied by
};

// What a tensor takes up on the wire.
inline int64_t wire_bytes(const at::Tensor& tensor) {
  const size_t bytes =
      tensor.is_sparse() ? tensor._values().nbytes() + tensor._indices().nbytes() : tensor.nbytes();
  return static_cast<int64_t>(bytes);
}

enum class Collective : uint8_t { all_reduce_sum, all_gather, all_to_all };

// One collective to launch. For an all-reduce, `receive` is `send` itself.
struct Round {
  Collective collective;
  at::Tensor send;
  at::Tensor receive;
};

// A part's way through a method. All workers make the same calls:
//
//   Method::begin()    makes the exchange. Nothing is encoded yet.
//   start()            encodes and returns the first round.
//   complete_round()   is called once for every round, the last one included, when the round's
//                      `receive` is filled. It does what the method has to do then and returns the
//                      next round, or nothing after the last one. There are at most
//                      Method::rounds() rounds.
//   finish()           is called when complete_round() has returned nothing. It decodes: the slots'
//                      memory then holds the result.
//
// What may be read when: until finish() the slots' memory holds this worker's gradients, so that a
// method can roll its step back. (Only an exchange that keeps no residual may let a round write
// into that memory.) payload_bytes() is valid after start() and final after the last round.
//
// Who keeps what alive: the caller keeps the slots' memory, parameters and states, and the Method,
// until the exchange is destroyed. The exchange keeps what it will read again, and the tensors of a
// Round are references: whoever launches it keeps the Round until it has completed.
//
// Threads: the calls come one after the other, but perhaps on different threads. start() and
// finish() run on the caller's thread, which under DDP is that of backward; complete_round() may
// run on the thread that launches later rounds. Exchanges of other parts run at the same time,
// with other parameters. Gradient mode is off in all calls.
//
// States: from start() to finish() nobody but the exchange touches the states of its parameters;
// ParameterState::residual() may be called. Where a gradient was not finite on some worker, the
// exchange rolls the step back: after finish() the states are on every worker what they were before
// start(), up to rounding. If a collective fails, finish() is not called, and the states are those
// of a step that failed.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual Round start() = 0;
  virtual std::optional<Round> complete_round() { return std::nullopt; }
  virtual void finish() = 0;
  // Bytes of this worker's payload that each slot takes up, headers included.
  virtual std::vector<int64_t> payload_bytes() const = 0;
};

// Shares out what belongs to a payload as a whole (its header, its padding) among its slots, so
// that their bytes add up to all that is sent.
inline void share_overhead(int64_t overhead, std::vector<int64_t>& bytes) {
  const auto slots = static_cast<int64_t>(bytes.size());
  for (int64_t i = 0; i < slots; ++i) {
    bytes[i] += overhead / slots + (i < overhead % slots ? 1 : 0);
  }
}

class Method {
 public:
  virtual ~Method() = default;
  // Null where the method leaves this parameter uncompressed.
  virtual std::unique_ptr<ParameterState> make_state(const Parameter& parameter,
                                                     const OptionMap& options) const = 0;
  // How many rounds its exchanges make at the most.
  virtual int rounds() const { return 1; }
  // True if its exchanges also take slots without state, at no further collective.
  virtual bool carries_uncompressed() const { return false; }
  // False if its result is not a mean, so that the number of workers has no part in it.
  virtual bool averages() const { return true; }
  virtual std::unique_ptr<Exchange> begin(std::vector<Slot> slots, const Step& step) = 0;

 protected:
  BufferPool buffers_;  // for the payloads of its exchanges
};

}  // namespace gradwire
