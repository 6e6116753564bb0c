// The table of all optimizers. A new optimizer has a header in this folder and two lines here: its #include, and its name
// at the end of the list. docs/extending.md shows a complete optimizer.
#pragma once

#include "paceline/parameters/ps/optimizer_spec.h"
#include "paceline/parameters/ps/optimizers/adafactor.h"
#include "paceline/parameters/ps/optimizers/adagrad.h"
#include "paceline/parameters/ps/optimizers/adam.h"
#include "paceline/parameters/ps/optimizers/adamax.h"
#include "paceline/parameters/ps/optimizers/adamw.h"
#include "paceline/parameters/ps/optimizers/lamb.h"
#include "paceline/parameters/ps/optimizers/lars.h"
#include "paceline/parameters/ps/optimizers/lion.h"
#include "paceline/parameters/ps/optimizers/nadam.h"
#include "paceline/parameters/ps/optimizers/nesterov.h"
#include "paceline/parameters/ps/optimizers/rmsprop.h"
#include "paceline/parameters/ps/optimizers/sgd.h"

// ELEMENTWISE(the Spec without "Spec", the kernels' name of it): it steps each number by itself.
// TENSORWISE: a step needs norms of whole tensors, which no shard may then cut. Messages list them in this order.
#define PACELINE_EACH_OPTIMIZER(ELEMENTWISE, TENSORWISE) \
  ELEMENTWISE(Sgd, sgd)                                  \
  ELEMENTWISE(Adam, adam)                                \
  ELEMENTWISE(AdamW, adamw)                              \
  ELEMENTWISE(Nesterov, nesterov)                        \
  ELEMENTWISE(Rmsprop, rmsprop)                          \
  ELEMENTWISE(Lion, lion)                                \
  TENSORWISE(Lars, lars)                                 \
  TENSORWISE(Lamb, lamb)                                 \
  TENSORWISE(Adafactor, adafactor)                       \
  ELEMENTWISE(Adamax, adamax)                            \
  ELEMENTWISE(Adagrad, adagrad)                          \
  ELEMENTWISE(Nadam, nadam)

namespace paceline::ps {

#define PACELINE_KIND(Name, name) k##Name,
enum class OptimizerKind { PACELINE_EACH_OPTIMIZER(PACELINE_KIND, PACELINE_KIND) };
#undef PACELINE_KIND

#define PACELINE_KIND(Name, name) OptimizerKind::k##Name,
inline constexpr OptimizerKind kEveryOptimizer[] = {PACELINE_EACH_OPTIMIZER(PACELINE_KIND, PACELINE_KIND)};
#undef PACELINE_KIND

// Whether an optimizer's Step has a direction, along which replicas look ahead.
template <class Step>
inline constexpr bool kHasDirection = requires(const Step& step) {
  step.direction(0.0f, 0.0f);
};

template <class Spec, class Step>
constexpr bool agree() {
  constexpr int kStates = Spec::kTraits.state[1] == nullptr ? 1 : 2;
  return Step::kStates == kStates && kHasDirection<Step> == (Spec::kTraits.direction_kept != nullptr);
}
#define PACELINE_AGREE(Name, name)                     \
  static_assert(agree<Name##Spec, Name##Spec::Step>(), \
                #Name ": its traits and its Step say different things of its state or its direction");
#define PACELINE_NOTHING(Name, name)
PACELINE_EACH_OPTIMIZER(PACELINE_AGREE, PACELINE_NOTHING)
#undef PACELINE_AGREE
#undef PACELINE_NOTHING

// Calls visit() with an object of the kind's Spec.
template <class Visit>
decltype(auto) with_spec(OptimizerKind kind, Visit&& visit) {
#define PACELINE_VISIT(Name, name) \
  case OptimizerKind::k##Name:     \
    return visit(Name##Spec{});
  switch (kind) { PACELINE_EACH_OPTIMIZER(PACELINE_VISIT, PACELINE_VISIT) }
#undef PACELINE_VISIT
  __builtin_trap();
}

}  // namespace paceline::ps
