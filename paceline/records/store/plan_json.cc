#include "paceline/records/store/plan_json.h"

#include <limits>
#include <utility>

#include "paceline/base/overloaded.h"
#include "paceline/base/status_macros.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::store {

using nlohmann::json;

namespace {

constexpr std::size_t kPlanDepth = 4;  // document, replicas, replica, devices
constexpr std::size_t kPlanningDepth = kPlanDepth + 1;

absl::StatusOr<std::int32_t> small_number(const json& value, const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t number, whole_number(value, name));
  if (number > std::numeric_limits<std::int32_t>::max())
    return absl::DataLossError("'" + name + "' has too large a number");
  return static_cast<std::int32_t>(number);
}

absl::StatusOr<std::vector<std::int32_t>> numbers_of(const json& object, const std::string& key) {
  PACELINE_ASSIGN_OR_RETURN(const json* list, member_of(object, key));
  if (!list->is_array()) return absl::DataLossError("'" + key + "' is not a list");
  std::vector<std::int32_t> numbers;
  for (const json& value : *list) {
    PACELINE_ASSIGN_OR_RETURN(numbers.emplace_back(), small_number(value, key));
  }
  return numbers;
}

absl::StatusOr<planner::PlannedReplica> replica_from(const json& document) {
  planner::PlannedReplica replica;
  PACELINE_ASSIGN_OR_RETURN(replica.devices, numbers_of(document, "devices"));
  PACELINE_ASSIGN_OR_RETURN(replica.cuts, numbers_of(document, "cuts"));
  PACELINE_ASSIGN_OR_RETURN(replica.samples, whole_number_of(document, "samples"));
  if (replica.devices.empty() || replica.cuts.size() + 1 != replica.devices.size())
    return absl::DataLossError("a replica's 'devices' and 'cuts' do not fit each other");
  return replica;
}

absl::StatusOr<control::DeviceWork> device_from(const json& triple) {
  if (!triple.is_array() || triple.size() != 3) return absl::DataLossError("a device's work is not a triple");
  control::DeviceWork work;
  PACELINE_ASSIGN_OR_RETURN(work.device, small_number(triple[0], "device"));
  PACELINE_ASSIGN_OR_RETURN(work.samples, whole_number(triple[1], "samples"));
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t ns, whole_number(triple[2], "computed"));
  work.computed = Duration(ns);
  return work;
}

json to_json(const planner::Plan& plan) {
  json replicas = json::array();
  for (const planner::PlannedReplica& replica : plan.replicas) {
    replicas.push_back({{"devices", replica.devices}, {"cuts", replica.cuts}, {"samples", replica.samples}});
  }
  return {{"micro_batch", plan.micro_batch}, {"replicas", std::move(replicas)}};
}

absl::StatusOr<planner::Plan> plan_from(const json& document) {
  planner::Plan plan;
  PACELINE_ASSIGN_OR_RETURN(plan.micro_batch, whole_number_of(document, "micro_batch"));
  PACELINE_ASSIGN_OR_RETURN(const json* replicas, member_of(document, "replicas"));
  if (!replicas->is_array()) return absl::DataLossError("'replicas' is not a list");
  for (const json& replica : *replicas) {
    PACELINE_ASSIGN_OR_RETURN(plan.replicas.emplace_back(), replica_from(replica));
  }
  return plan;
}

absl::Status add(const json& document, control::ReplicaJoined& fact) {
  PACELINE_ASSIGN_OR_RETURN(const json* place, member_of(document, "place"));
  PACELINE_ASSIGN_OR_RETURN(fact.place, small_number(*place, "place"));
  return absl::OkStatus();
}

absl::Status add(const json& document, control::ReplicaReady& fact) {
  if (document.contains("weight")) {
    if (!document["weight"].is_number()) return absl::DataLossError("'weight' is not a number");
    fact.weight = document["weight"].get<double>();
  }
  if (document.contains("data_end")) {
    PACELINE_ASSIGN_OR_RETURN(fact.data_end, whole_number_of(document, "data_end"));
  }
  if ((fact.weight || fact.data_end) && !document.contains("worked_ns")) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(const json* worked, member_of(document, "worked_ns"));
  if (!worked->is_array()) return absl::DataLossError("'worked_ns' is not a list");
  for (const json& one : *worked) {
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t ns, whole_number(one, "worked_ns"));
    fact.worked.emplace_back(ns);
  }
  return absl::OkStatus();
}

template <class CameOrWent>
absl::Status add_device(const json& document, CameOrWent& fact) {
  PACELINE_ASSIGN_OR_RETURN(const json* device, member_of(document, "device"));
  PACELINE_ASSIGN_OR_RETURN(fact.device, small_number(*device, "device"));
  return absl::OkStatus();
}

absl::Status add(const json& document, control::DeviceJoined& fact) {
  PACELINE_RETURN_IF_ERROR(add_device(document, fact));
  if (!document.contains("memory_bytes")) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(fact.memory_bytes, whole_number_of(document, "memory_bytes"));
  return absl::OkStatus();
}
absl::Status add(const json& document, control::DeviceLeft& fact) { return add_device(document, fact); }
absl::Status add(const json& document, control::DeviceOutOfMemory& fact) {
  PACELINE_RETURN_IF_ERROR(add_device(document, fact));
  if (!document.contains("samples")) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(fact.samples, whole_number_of(document, "samples"));
  return absl::OkStatus();
}

absl::Status add(const json& document, control::LinkMeasured& fact) {
  const auto whole = [&](const char* name) -> absl::StatusOr<std::int64_t> {
    PACELINE_ASSIGN_OR_RETURN(const json* value, member_of(document, name));
    return whole_number(*value, name);
  };
  PACELINE_ASSIGN_OR_RETURN(const json* from, member_of(document, "from"));
  PACELINE_ASSIGN_OR_RETURN(const json* to, member_of(document, "to"));
  PACELINE_ASSIGN_OR_RETURN(const std::int32_t from_host, small_number(*from, "from"));
  PACELINE_ASSIGN_OR_RETURN(const std::int32_t to_host, small_number(*to, "to"));
  PACELINE_ASSIGN_OR_RETURN(const json* shared, member_of(document, "shared"));
  if (!shared->is_boolean()) return absl::DataLossError("'shared' is not true or false");
  PACELINE_ASSIGN_OR_RETURN(fact.bytes, whole("bytes"));
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t took_ns, whole("took_ns"));
  fact.from = HostPlace(from_host);
  fact.to = HostPlace(to_host);
  fact.took = Duration(took_ns);
  fact.shared = shared->get<bool>();
  return absl::OkStatus();
}

absl::Status add(const json& document, control::PlanSearched& fact) {
  if (document.contains("plan")) {
    PACELINE_ASSIGN_OR_RETURN(fact.plan, plan_from(document["plan"]));
  } else if (document.contains("impossible")) {
    if (!document["impossible"].is_string()) return absl::DataLossError("'impossible' is not a text");
    fact.impossible = document["impossible"].get<std::string>();
  }
  return absl::OkStatus();
}

absl::Status add(const json& document, control::ReplicaLeft& fact) {
  PACELINE_ASSIGN_OR_RETURN(fact.least_batch, whole_number_of(document, "least_batch"));
  return absl::OkStatus();
}

template <class Other>
absl::Status add(const json&, Other&) {
  return absl::DataLossError("it has nothing to do with planning");
}

}  // namespace

std::string to_text(const planner::Plan& plan) { return to_json(plan).dump(); }

absl::StatusOr<planner::Plan> plan_from_text(const std::string& text) {
  PACELINE_ASSIGN_OR_RETURN(const json document, parse_strict_json(text, kPlanDepth));
  return plan_from(document);
}

std::optional<std::string> planning_of(const control::Fact& fact) {
  return std::visit(Overloaded{
                        [](const control::ReplicaJoined& joined) -> std::optional<std::string> {
                          if (!joined.place) return std::nullopt;
                          return json{{"place", *joined.place}}.dump();
                        },
                        [](const control::ReplicaLeft& left) -> std::optional<std::string> {
                          if (!left.least_batch) return std::nullopt;
                          return json{{"least_batch", *left.least_batch}}.dump();
                        },
                        [](const control::ReplicaReady& ready) -> std::optional<std::string> {
                          json all = json::object();
                          if (ready.weight) all["weight"] = *ready.weight;
                          if (ready.data_end) all["data_end"] = *ready.data_end;
                          for (const Duration one : ready.worked) all["worked_ns"].push_back(one.count());
                          return all.empty() ? std::nullopt : std::optional(all.dump());
                        },
                        [](const control::DeviceJoined& one) -> std::optional<std::string> {
                          json all{{"device", one.device}};
                          if (one.memory_bytes != 0) all["memory_bytes"] = one.memory_bytes;
                          return all.dump();
                        },
                        [](const control::DeviceLeft& one) -> std::optional<std::string> {
                          return json{{"device", one.device}}.dump();
                        },
                        [](const control::DeviceOutOfMemory& one) -> std::optional<std::string> {
                          json all{{"device", one.device}};
                          if (one.samples != 0) all["samples"] = one.samples;
                          return all.dump();
                        },
                        [](const control::LinkMeasured& one) -> std::optional<std::string> {
                          return json{{"from", one.from.value()},
                                      {"to", one.to.value()},
                                      {"bytes", one.bytes},
                                      {"took_ns", one.took.count()},
                                      {"shared", one.shared}}
                              .dump();
                        },
                        [](const control::PlanSearched& one) -> std::optional<std::string> {
                          if (one.plan) return json{{"plan", to_json(*one.plan)}}.dump();
                          if (!one.impossible.empty()) return json{{"impossible", one.impossible}}.dump();
                          return "{}";
                        },
                        [](const auto&) -> std::optional<std::string> { return std::nullopt; },
                    },
                    fact.what);
}

absl::Status add_planning(const std::string& text, control::Fact& fact) {
  PACELINE_ASSIGN_OR_RETURN(const json document, parse_strict_json(text, kPlanningDepth));
  if (!document.is_object()) return absl::DataLossError("it is not an object");
  return std::visit([&](auto& what) { return add(document, what); }, fact.what);
}

std::string to_text(const std::vector<control::DeviceWork>& work) {
  json list = json::array();
  for (const control::DeviceWork& one : work) list.push_back({one.device, one.samples, one.computed.count()});
  return list.dump();
}

absl::StatusOr<std::vector<control::DeviceWork>> work_from_text(const std::string& text) {
  PACELINE_ASSIGN_OR_RETURN(const json document, parse_strict_json(text, kPlanDepth));
  if (!document.is_array()) return absl::DataLossError("the work of a batch is not a list");
  std::vector<control::DeviceWork> work;
  for (const json& triple : document) {
    PACELINE_ASSIGN_OR_RETURN(work.emplace_back(), device_from(triple));
  }
  return work;
}

}  // namespace paceline::store
