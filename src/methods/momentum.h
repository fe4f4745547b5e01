#pragma once

// Momentum correction, for methods that send few elements or few bits of a gradient.
//
// SGD with momentum m moves the weights by the velocity v = m · v + g. A method that keeps back a
// part of g for some steps sends it without the velocity that it would have gathered by then. So
// every worker keeps a velocity of its own, and the method sends that in place of the gradient:
//
//   u = m · u + g ;  the method makes the common result s(t) of all workers' u
//   the caller finds s(t) − m · s(t−1)
//
// SGD without dampening makes v(t) = m · v(t−1) + s(t) − m · s(t−1) = s(t) of that: its velocity is
// what the workers have sent of theirs.
//
//   What is conserved. N · s + Σ ΔE = Σ u in every step. With K = (1 − m) · E + m · (u − s) this is
//   N · result + Σ ΔK = Σ g: K is what a worker keeps back, in units of the gradient.
//
//   A worker that abstains leaves its u alone. Where the result is all zero, because nobody used
//   the parameter, s stays, too, and the caller finds zeros. The Reducer throws them away, and the
//   optimizer leaves a parameter without gradient and its velocity alone. Where the zeros are used,
//   what v coasts meanwhile is taken back by the next result: K is conserved either way.
//
//   A result that is not finite leaves u and s as they were, to the bit. A GradScaler then skips
//   the step for all parameters, and v(t) never comes to be. So s(t) takes the place of s(t−1) only
//   in end_step(), when the whole step is known.
//
//   Another number of workers. Results are means, so all that reaches the weights of the workers' u
//   and E is their means. Each new worker begins with these, and the mean of K stays.

#include <memory>

#include "methods/method.h"

namespace gradwire {

// The option `momentum`; a method that has it lets its facts tell momentum_of().
OptionSpec momentum_option();
double momentum_of(const OptionMap& options);

// The state, null or not, with momentum correction unless the momentum is 0.
std::unique_ptr<ParameterState> with_momentum(std::unique_ptr<ParameterState> state,
                                              const Parameter& parameter, double momentum);

}  // namespace gradwire
