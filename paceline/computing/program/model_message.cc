#include "paceline/computing/program/model_message.h"

#include <cmath>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <toml++/toml.h>
#include <nlohmann/json.hpp>

#include "paceline/base/status_macros.h"
#include "paceline/computing/program/wrong.h"
#include "paceline/decisions/control/controller.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::program {

using nlohmann::json;

namespace {

constexpr std::size_t kMostTensors = 200'000;
constexpr std::size_t kLongestTensorName = 1000;
constexpr std::size_t kMostDimensions = 16;
constexpr std::size_t kLongestDigest = 64;
constexpr std::size_t kMostUnits = 10'000;
constexpr std::int64_t kMostFloats = std::int64_t{1} << 40;

absl::StatusOr<std::vector<std::int64_t>> shape_of(const json& tensor, const std::string& name) {
  const auto found = tensor.find("shape");
  if (found == tensor.end() || !found->is_array() || found->size() > kMostDimensions)
    return wrong(fmt::format("sent tensor '{}' without a shape", name));
  std::vector<std::int64_t> shape;
  std::int64_t floats = 1;
  for (const json& extent : *found) {
    const bool good = extent.is_number_integer() && extent.get<std::int64_t>() > 0 &&
                      extent.get<std::int64_t>() <= kMostFloats / floats;
    if (!good)
      return wrong(fmt::format("sent tensor '{}' of a shape that cannot be: {}", name, found->dump()));
    shape.push_back(extent.get<std::int64_t>());
    floats *= shape.back();
  }
  return shape;
}

absl::StatusOr<std::string> name_of(const json& tensor) {
  const auto found = tensor.is_object() ? tensor.find("name") : tensor.end();
  if (!tensor.is_object() || found == tensor.end() || !found->is_string())
    return wrong("sent a tensor without a name");
  const auto name = found->get<std::string>();
  const std::string shown = store::printable(name);
  if (name.empty() || name.size() > kLongestTensorName)
    return wrong(
        fmt::format("sent a tensor whose name '{}' has {} bytes; 1 to {} are allowed, so name it otherwise",
                    shown, name.size(), kLongestTensorName));
  if (store::printable(name, kLongestTensorName) != name)
    return wrong(fmt::format(
        "sent a tensor whose name '{}' has characters that cannot be printed; name it otherwise", shown));
  return name;
}

absl::StatusOr<std::string> word_of(const json& tensor, const char* key, const std::string& name,
                                    const char* otherwise) {
  const auto found = tensor.find(key);
  if (found == tensor.end()) return std::string(otherwise);
  if (!found->is_string())
    return wrong(fmt::format("sent tensor '{}' with a {} that is not a text", name, key));
  return found->get<std::string>();
}

absl::StatusOr<ps::TensorKind> kind_of(const json& tensor, const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const std::string kind, word_of(tensor, "kind", name, "parameter"));
  if (kind == "parameter") return ps::TensorKind::kParameter;
  if (kind == "statistic") return ps::TensorKind::kStatistic;
  if (kind == "constant") return ps::TensorKind::kConstant;
  return wrong(fmt::format("sent tensor '{}' of the unknown kind '{}'", name, store::printable(kind)));
}

absl::StatusOr<ps::Dtype> dtype_of(const json& tensor, const std::string& name) {
  PACELINE_ASSIGN_OR_RETURN(const std::string dtype, word_of(tensor, "dtype", name, "float32"));
  const auto known = ps::dtype_named(dtype);
  if (known) return *known;
  return wrong(fmt::format("sent tensor '{}' of the unknown dtype '{}'", name, store::printable(dtype)));
}

absl::StatusOr<ps::Layout> layout_of(const json& message, std::set<std::string>& names) {
  const auto tensors = message.find("tensors");
  if (tensors == message.end() || !tensors->is_array() || tensors->empty())
    return wrong("sent a model without tensors");
  if (tensors->size() > kMostTensors) return wrong("sent a model of too many tensors");
  ps::Layout layout;
  bool any_parameter = false;
  for (const json& tensor : *tensors) {
    PACELINE_ASSIGN_OR_RETURN(const std::string name, name_of(tensor));
    if (!names.insert(name).second) return wrong(fmt::format("named tensor '{}' twice", name));
    PACELINE_ASSIGN_OR_RETURN(auto shape, shape_of(tensor, name));
    PACELINE_ASSIGN_OR_RETURN(const ps::TensorKind kind, kind_of(tensor, name));
    PACELINE_ASSIGN_OR_RETURN(const ps::Dtype dtype, dtype_of(tensor, name));
    any_parameter = any_parameter || kind == ps::TensorKind::kParameter;
    layout.add(name, kind, std::move(shape), dtype);
    if (layout.size() > kMostFloats) return wrong("sent a model that is too large");
  }
  if (!any_parameter) return wrong("sent a model without a parameter to train");
  return layout;
}

absl::Status add_frozen(const json& message, std::set<std::string>& names, Model& model) {
  const auto frozen = message.find("frozen");
  if (frozen == message.end() || frozen->is_null()) return absl::OkStatus();
  if (!frozen->is_array()) return wrong("sent 'frozen' that is not a list");
  if (names.size() + frozen->size() > kMostTensors) return wrong("sent a model of too many tensors");
  for (const json& tensor : *frozen) {
    engine::FrozenTensor one;
    PACELINE_ASSIGN_OR_RETURN(one.name, name_of(tensor));
    if (!names.insert(one.name).second) return wrong(fmt::format("named tensor '{}' twice", one.name));
    PACELINE_ASSIGN_OR_RETURN(one.shape, shape_of(tensor, one.name));
    PACELINE_ASSIGN_OR_RETURN(one.dtype, dtype_of(tensor, one.name));
    PACELINE_ASSIGN_OR_RETURN(one.digest, word_of(tensor, "digest", one.name, ""));
    if (one.digest.size() > kLongestDigest)
      return wrong(
          fmt::format("sent tensor '{}' with a digest of more than {} bytes", one.name, kLongestDigest));
    model.frozen.push_back(std::move(one));
  }
  return absl::OkStatus();
}

// The value in TOML. An error for one that a job file cannot have.
absl::StatusOr<std::string> toml_of(const json& value, const std::string& key) {
  if (value.is_string()) {  // which may be the name of a tensor
    const toml::value<std::string> node(store::printable(value.get<std::string>(), kLongestTensorName));
    std::ostringstream text;
    text << toml::toml_formatter(
        node, toml::toml_formatter::default_flags & ~toml::format_flags::allow_literal_strings);
    return text.str();
  }
  if (value.is_boolean()) return std::string(value.get<bool>() ? "true" : "false");
  if (value.is_number_integer()) return value.dump();
  if (value.is_number()) {
    const std::string text = value.dump();
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  if (value.is_array()) {
    std::string all;
    for (const json& one : value) {
      PACELINE_ASSIGN_OR_RETURN(const std::string text, toml_of(one, key));
      all += (all.empty() ? "" : ", ") + text;
    }
    return "[" + all + "]";
  }
  if (value.is_object()) {
    std::string all;
    for (const auto& [name, one] : value.items()) {
      PACELINE_ASSIGN_OR_RETURN(const std::string text, toml_of(one, key));
      all += fmt::format("{}{} = {}", all.empty() ? "" : ", ", name, text);
    }
    return "{" + all + "}";
  }
  return wrong(fmt::format("asked for a {} that is null", key));
}

bool plain_key(const std::string& key) {
  return !key.empty() && key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") == std::string::npos;
}

absl::Status add_section(const json& message, const char* section, std::vector<std::string>& sets) {
  const auto found = message.find(section);
  if (found == message.end() || found->is_null()) return absl::OkStatus();
  if (!found->is_object()) return wrong(fmt::format("sent a '{}' that is not an object", section));
  for (const auto& [key, value] : found->items()) {
    if (value.is_null()) continue;
    if (!plain_key(key)) return wrong(fmt::format("sent the key '{}' in {}", store::printable(key), section));
    PACELINE_ASSIGN_OR_RETURN(const std::string text, toml_of(value, key));
    sets.push_back(fmt::format("{}.{}={}", section, key, text));
  }
  return absl::OkStatus();
}

absl::Status add_number(const json& message, const char* key, std::vector<std::string>& sets) {
  const auto found = message.find(key);
  if (found == message.end() || found->is_null()) return absl::OkStatus();
  if (!found->is_number()) return wrong(fmt::format("sent a '{}' that is not a number", key));
  PACELINE_ASSIGN_OR_RETURN(const std::string text, toml_of(*found, key));
  sets.push_back(fmt::format("{}={}", key, text));
  return absl::OkStatus();
}

absl::Status add_pairs(const json& message, const char* key,
                       std::vector<std::pair<std::string, std::string>>& to) {
  const auto found = message.find(key);
  if (found == message.end() || found->is_null()) return absl::OkStatus();
  const auto is_pair = [](const json& one) {
    return one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_string();
  };
  if (!found->is_array()) return wrong(fmt::format("sent '{}' that are not a list", key));
  for (const json& one : *found) {
    if (!is_pair(one)) return wrong(fmt::format("sent '{}' with one that is not [name, tensor]", key));
    to.emplace_back(one[0].get<std::string>(), one[1].get<std::string>());
  }
  return absl::OkStatus();
}

// A program that says nothing of a card, or says it in another way, gets its weights in the host's memory.
void read_memory(const json& message, Model& model) {
  const auto memory = message.find("memory");
  if (memory == message.end() || !memory->is_object()) return;
  const auto kind = memory->find("kind"), device = memory->find("device"), count = memory->find("cards");
  if (kind == memory->end() || *kind != "cuda" || device == memory->end() || !device->is_string()) return;
  model.card = store::printable(device->get<std::string>().substr(0, 64));
  model.cards = 1;
  if (count != memory->end() && count->is_number_integer())
    model.cards = static_cast<std::int32_t>(std::clamp<std::int64_t>(count->get<std::int64_t>(), 1, 1024));
  const auto words = memory->find("words");
  model.words = words != memory->end() && words->is_boolean() && words->get<bool>();
}

constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;  // the most free memory

// Numbers that cannot be are left out: the job's devices have no limit then.
void read_free_memory(const json& message, Model& model) {
  constexpr std::size_t kMostCards = 1024;
  const auto each = message.find("free_memory");
  if (each == message.end() || !each->is_array() || each->size() > kMostCards) return;
  for (const json& one : *each) {
    const std::int64_t bytes = one.is_number_integer() ? one.get<std::int64_t>() : -1;
    if (bytes < 0 || bytes > kMostBytes) return model.free_memory.clear();
    model.free_memory.push_back(bytes);
  }
}

// The same.
void read_card_memory(const json& message, Model& model) {
  const auto said = message.find("card_memory");
  if (said == message.end() || !said->is_object()) return;
  const auto card = said->find("card"), free = said->find("free");
  if (card == said->end() || !card->is_string() || free == said->end() || !free->is_number_integer()) return;
  const auto bytes = free->get<std::int64_t>();
  if (bytes <= 0 || bytes > kMostBytes) return;
  model.card_memory = {store::printable(card->get<std::string>().substr(0, 64)), bytes};
}

absl::Status read_first_steps(const json& message, Model& model) {
  const auto state = message.find("optimizer_state");
  if (state == message.end() || state->is_null()) return absl::OkStatus();
  const auto steps = state->is_object() ? state->find("steps") : state->end();
  if (!state->is_object() || steps == state->end() || !steps->is_number() || !(steps->get<double>() > 0) ||
      !std::isfinite(steps->get<double>()))
    return wrong("sent an 'optimizer_state' without the number of its steps, above 0");
  model.first_steps = steps->get<double>();
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> bytes_of(const json& unit, const char* key) {
  const auto found = unit.find(key);
  if (found == unit.end()) return 0;
  if (!found->is_number_integer() || found->get<std::int64_t>() < 0 ||
      found->get<std::int64_t>() > kMostFloats)
    return wrong(fmt::format("sent a unit whose {} cannot be: {}", key, found->dump()));
  return found->get<std::int64_t>();
}

absl::StatusOr<UnitWeights> weights_of(const json& sent, std::size_t number) {
  UnitWeights weights;
  PACELINE_ASSIGN_OR_RETURN(weights.parameter_bytes, bytes_of(sent, "parameter_bytes"));
  PACELINE_ASSIGN_OR_RETURN(weights.frozen_bytes, bytes_of(sent, "frozen_bytes"));
  PACELINE_ASSIGN_OR_RETURN(weights.tied_bytes, bytes_of(sent, "tied_bytes"));
  if (weights.frozen_bytes > weights.parameter_bytes)
    return wrong("sent a unit that has more frozen weights than weights");
  if (weights.tied_bytes > 0) {
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t owner, bytes_of(sent, "tied_to"));
    if (owner >= static_cast<std::int64_t>(number))
      return wrong("sent a unit that is tied to none before it");
    weights.tied_to = static_cast<std::int32_t>(owner);
  }
  return weights;
}

absl::StatusOr<Unit> unit_of(const json& sent, std::size_t number) {
  if (!sent.is_object()) return wrong("sent a unit that is not an object");
  Unit unit;
  PACELINE_ASSIGN_OR_RETURN(unit.name, word_of(sent, "name", "unit", ""));
  unit.name = store::printable(unit.name);
  const auto tensors = sent.find("tensors");
  if (tensors == sent.end() || !tensors->is_array()) return wrong("sent a unit without tensors");
  for (const json& one : *tensors) {
    if (!one.is_number_integer()) return wrong("sent a unit with a tensor that is not a number");
    unit.tensors.push_back(one.get<std::int64_t>());
  }
  PACELINE_ASSIGN_OR_RETURN(unit.message_bytes, bytes_of(sent, "message_bytes"));
  PACELINE_ASSIGN_OR_RETURN(unit.extra_bytes, bytes_of(sent, "extra_bytes"));
  PACELINE_ASSIGN_OR_RETURN(unit.kept_bytes, bytes_of(sent, "kept_bytes"));
  const auto flops = sent.find("flops");
  if (flops != sent.end() && flops->is_number()) unit.flops = flops->get<double>();
  if (!(unit.flops >= 0 && std::isfinite(unit.flops))) return wrong("sent a unit whose flops cannot be");
  if (sent.contains("parameter_bytes")) {
    PACELINE_ASSIGN_OR_RETURN(unit.weights, weights_of(sent, number));
  }
  return unit;
}

// Every tensor that is written belongs to one unit.
absl::Status check_units(const Model& model) {
  std::vector<int> owners(model.layout.tensors().size(), 0);
  for (const Unit& unit : model.units) {
    std::int64_t last = -1;
    for (const std::int64_t tensor : unit.tensors) {
      if (tensor <= last || static_cast<std::size_t>(tensor) >= owners.size())
        return wrong(fmt::format("sent a unit with the tensor {} out of order", tensor));
      owners[static_cast<std::size_t>(tensor)] += 1;
      last = tensor;
    }
  }
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const ps::TensorSpec& tensor = model.layout.tensors()[i];
    if (owners[i] != (tensor.kind == ps::TensorKind::kConstant ? 0 : 1))
      return wrong(fmt::format("put tensor '{}' into {} units", tensor.name, owners[i]));
  }
  return absl::OkStatus();
}

absl::Status add_units(const json& message, Model& model) {
  if (const auto why = message.find("uncut"); why != message.end() && why->is_string())
    model.uncut = store::printable(why->get<std::string>(), store::kLongestError);
  if (const auto found = message.find("libraries"); found != message.end() && found->is_string())
    model.libraries = store::printable(found->get<std::string>(), kLongestTensorName);
  const auto units = message.find("units");
  if (units == message.end() || units->is_null()) return absl::OkStatus();
  if (!units->is_array() || units->empty() || units->size() > kMostUnits)
    return wrong(fmt::format("sent 'units' that are not a list of 1 to {}", kMostUnits));
  for (const json& sent : *units) {
    PACELINE_ASSIGN_OR_RETURN(Unit unit, unit_of(sent, model.units.size()));
    model.units.push_back(std::move(unit));
  }
  return check_units(model);
}

}  // namespace

namespace {

// The order of its data, which is that of one digest if the program does not say more.
absl::StatusOr<DataOrder> data_order_of(const json& message, const std::string& digest) {
  const auto parts = message.find("data_order");
  if (parts == message.end()) {
    DataOrder whole{{0, digest}};
    return is_data_order(whole) ? whole : DataOrder{};
  }
  DataOrder order;
  if (!parts->is_array()) return wrong("sent a 'data_order' that is no list");
  for (const json& part : *parts) {
    const bool pair =
        part.is_array() && part.size() == 2 && part[0].is_number_integer() && part[1].is_string();
    if (!pair) return wrong("sent a 'data_order' whose parts are not pairs of a position and a digest");
    order.push_back({part[0].get<std::int64_t>(), part[1].get<std::string>()});
  }
  if (!is_data_order(order)) return wrong("sent a 'data_order' whose positions do not ascend from 0");
  return order;
}

}  // namespace

absl::StatusOr<Model> parse_model(const json& message) {
  Model model;
  std::set<std::string> names;
  PACELINE_ASSIGN_OR_RETURN(model.layout, layout_of(message, names));
  PACELINE_RETURN_IF_ERROR(add_frozen(message, names, model));
  const auto samples = message.find("samples");
  const bool counted = samples != message.end() && samples->is_number_integer() &&
                       samples->get<std::int64_t>() >= 1 && samples->get<std::int64_t>() <= INT32_MAX;
  if (!counted) return wrong("did not say how many samples it trains on, from 1 to 2147483647");
  model.samples = samples->get<std::int32_t>();
  if (const auto order = message.find("in_order"); order != message.end() && order->is_boolean())
    model.in_order = order->get<bool>();
  if (const auto bfloat16 = message.find("bfloat16"); bfloat16 != message.end() && bfloat16->is_boolean())
    model.bfloat16 = bfloat16->get<bool>();
  if (const auto open = message.find("open_end"); open != message.end() && open->is_boolean())
    model.sets.push_back(fmt::format("data.open_end={}", open->get<bool>()));
  if (const auto digest = message.find("digest"); digest != message.end() && digest->is_string())
    model.digest = digest->get<std::string>().substr(0, kLongestTensorName);
  PACELINE_ASSIGN_OR_RETURN(model.data_order, data_order_of(message, model.digest));
  if (const auto where = message.find("where"); where != message.end() && where->is_string())
    model.where = store::printable(where->get<std::string>(), kLongestTensorName);
  if (const auto note = message.find("note"); note != message.end() && note->is_string())
    model.note = store::printable(note->get<std::string>(), store::kLongestError);
  if (const auto device = message.find("device"); device != message.end() && device->is_string())
    model.device = store::printable(device->get<std::string>());
  read_memory(message, model);
  read_free_memory(message, model);
  read_card_memory(message, model);
  if (const auto last = message.find("last"); last != message.end() && last->is_boolean())
    model.last = last->get<bool>();
  if (const auto prefetch = message.find("prefetch");
      prefetch != message.end() && prefetch->is_number_integer())
    model.prefetch = std::clamp<std::int64_t>(prefetch->get<std::int64_t>(), 0, control::kMostAhead);
  // A step that is begun early needs a batch that is known early.
  if (model.words) model.prefetch = std::max<std::int64_t>(model.prefetch, 1);
  if (const auto evaluates = message.find("evaluates");
      evaluates != message.end() && evaluates->is_boolean() && !evaluates->get<bool>())
    model.sets.emplace_back("evaluate.enabled=false");
  if (model.prefetch > 0) model.sets.push_back(fmt::format("data.ahead={}", model.prefetch));
  PACELINE_RETURN_IF_ERROR(add_number(message, "batch", model.sets));
  PACELINE_RETURN_IF_ERROR(add_number(message, "epochs", model.sets));
  PACELINE_RETURN_IF_ERROR(add_number(message, "least_batch", model.sets));
  PACELINE_RETURN_IF_ERROR(add_number(message, "least_share", model.sets));
  if (const auto drops = message.find("drop_last"); drops != message.end() && drops->is_boolean())
    model.sets.push_back(fmt::format("drop_last={}", drops->get<bool>()));
  PACELINE_RETURN_IF_ERROR(add_section(message, "optimizer", model.sets));
  PACELINE_RETURN_IF_ERROR(read_first_steps(message, model));
  PACELINE_RETURN_IF_ERROR(add_section(message, "schedule", model.sets));
  PACELINE_RETURN_IF_ERROR(add_pairs(message, "aliases", model.aliases));
  PACELINE_RETURN_IF_ERROR(add_pairs(message, "trained_names", model.trained_names));
  if (const auto config = message.find("adapter_config"); config != message.end() && config->is_object())
    model.adapter_config = config->dump(2, ' ', false, json::error_handler_t::replace);
  PACELINE_RETURN_IF_ERROR(add_units(message, model));
  return model;
}

}  // namespace paceline::program
