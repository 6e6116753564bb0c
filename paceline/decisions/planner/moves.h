// The steps of the tentative search (JDMP) from one plan to another: shift a cut, swap or move a device,
// split or merge replicas, join or part stages, drop or add a device, change u. Pure; chance comes from the
// generator handed in.
#pragma once

#include <vector>

#include "paceline/base/rng.h"
#include "paceline/decisions/planner/cost_model.h"

namespace paceline::planner {

enum class MoveScope { kCuts, kGroups };  // kCuts: only shift a cut, and change u

// Makes one random move. False when the one that was drawn cannot be made here; the plan is then in no state
// to be used. Pipelines that get other devices are cut anew so that their largest part is least.
bool random_move(const CostModel& model, MoveScope scope, Rng& rng, Plan& plan);

// Draws a plan from nothing: devices in any order, divided into replicas anywhere; in some plans devices
// share stages. False when the one that was drawn does not fit into memory.
bool random_plan(const CostModel& model, Rng& rng, Plan& plan);

// Every small change of the plan in turn: each cut by one layer, each u and, in kGroups, each two devices
// swapped, each device dropped, each unused one alone as a replica; in small clusters also each device moved
// to each place, each two replicas merged, each split, each two stages in a row made one, each stage on
// several devices made two, and each two unused devices as a replica. What cannot be is left out.
std::vector<Plan> neighbours(const CostModel& model, MoveScope scope, const Plan& plan);

// The devices that are present and in no replica.
std::vector<std::int32_t> unused_devices(const Problem& problem, const Plan& plan);

}  // namespace paceline::planner
