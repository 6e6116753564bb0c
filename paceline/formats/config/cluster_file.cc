#include "paceline/formats/config/cluster_file.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/budget.h"
#include "paceline/formats/config/file_kind.h"
#include "paceline/formats/config/host_memory.h"
#include "paceline/formats/config/layer_tables.h"
#include "paceline/formats/config/parallel.h"
#include "paceline/formats/config/section.h"
#include "paceline/formats/config/toml_text.h"

namespace paceline::config {

namespace {

constexpr double kMostSeconds = 1e9;
// Bytes a millisecond at 10⁹ bits a second.
constexpr double kBytesPerMs = 1e9 / 8 / 1000;

// Reads the keys gbps and latency_us; a missing one has the value of `otherwise`.
planner::Link read_wire(Section& section, const planner::Link& otherwise) {
  const double gbps = section.number("gbps", otherwise.bytes_per_ms / kBytesPerMs, 1e-6, 1e6);
  return {section.number("latency_us", 1000 * otherwise.latency_ms, 0, 1e9) / 1000, gbps * kBytesPerMs};
}

class ClusterReader {
 public:
  ClusterReader(const toml::table& root, const std::string& file, ModelIs model)
      : root_(root), name_(file), model_(model), complaints_(file), top_(&root, "", complaints_) {}

  absl::StatusOr<ClusterFile> read() {
    file_.seed = static_cast<std::uint64_t>(top_.integer("seed", 1, 0, INT64_MAX));
    read_model({top_.table("model"), "model", complaints_});
    read_batch();
    read_devices();
    read_links();
    for (const toml::table* table : top_.tables("budget")) read_budget({table, "budget", complaints_});
    read_run();
    top_.finish();
    PACELINE_RETURN_IF_ERROR(unless_other_kind(root_, FileKind::kCluster, name_, complaints_.status()));
    return std::move(file_);
  }

 private:
  planner::Problem& problem() { return file_.problem; }
  planner::Cluster& cluster() { return file_.problem.cluster; }

  void read_model(Section section) {
    planner::LayerProfile& each = file_.each;
    read_layer_sizes(section, each);
    for (const double work_ms : section.numbers("layers", 1e-9, 1e9)) {
      each.name = fmt::format("layer{}", problem().model.layers.size());
      each.work_ms = work_ms;
      if (problem().model.layers.size() == kMostLayers) {
        section.complain("layers", fmt::format("write at most {}", kMostLayers));
        break;
      }
      problem().model.layers.push_back(each);
    }
    const bool listed = section.has("layers");
    if (top_.has("layer")) read_layers(top_, each, complaints_, problem().model);
    read_model_times(top_, problem().model);
    if (section.has("name")) {
      for (const char* size : {"output_kb", "activation_kb", "parameter_kb", "forward_share"})
        if (section.has(size)) section.complain(size, "leave it out: it is measured if the model has a name");
      read_named(section);
    }
    file_.profile = section.text("profile", "");
    const int ways =
        int{listed} + int{top_.has("layer")} + int{section.has("name")} + int{section.has("profile")};
    if (model_ == ModelIs::kElsewhere && ways > 0)
      section.complain("layers",
                       "leave [[layer]], and layers, name and profile of [model] out: the command line names "
                       "the model");
    else if (model_ == ModelIs::kInFile && ways != 1)
      section.complain("layers", "give the model once: [[layer]], or layers, name or profile of [model]");
    else if (listed && problem().model.layers.empty())
      section.complain("layers", "write at least one");
    section.finish();
  }

  void read_named(Section& section) {
    NamedModel named;
    named.model.name = section.text("name", "");
    named.model.width = section.integer("width", named.model.width, 1, 65536);
    named.model.layers = section.integer("blocks", named.model.layers, 1, 1024);
    named.model.heads = section.integer("heads", named.model.heads, 1, 1024);
    named.model.context = section.integer("context", named.model.context, 1, 65536);
    named.sample_shape = section.integers("sample", 1, 4096);
    if (section.has("classes")) named.classes = section.integer("classes", 1, 1, 1 << 20);
    file_.named = std::move(named);
  }

  void read_batch() {
    problem().batch = top_.integer("batch", 128, 1, 1 << 24);
    std::vector<std::int64_t>& sizes = problem().micro_batches;
    sizes = top_.integers("micro_batch", 1, problem().batch);
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    if (sizes.empty()) sizes = planner::powers_of_two_up_to(problem().batch);
  }

  std::int32_t site(const std::string& name) {
    const auto found = std::find(sites_.begin(), sites_.end(), name);
    if (found == sites_.end()) sites_.push_back(name);
    return static_cast<std::int32_t>(std::find(sites_.begin(), sites_.end(), name) - sites_.begin());
  }

  // Devices without a name of a host are each on another host, if any device has one.
  std::int32_t host(const std::string& name) {
    if (!names_hosts_) return 0;
    const auto found = std::find(hosts_.begin(), hosts_.end(), name);
    if (found != hosts_.end() && !name.empty()) return static_cast<std::int32_t>(found - hosts_.begin());
    hosts_.push_back(name);
    return static_cast<std::int32_t>(hosts_.size()) - 1;
  }

  // All devices name the same host, or the file says nothing about hosts, sites and links.
  void find_hosts() {
    const toml::array* devices = root_["device"].as_array();
    std::set<std::string> hosts;
    bool says_links = root_.contains("link") || root_.contains("cross_site") || root_.contains("path");
    if (const toml::table* servers = root_["servers"].as_table())
      says_links |= servers->contains("gbps") || servers->contains("site");
    for (std::size_t i = 0; devices != nullptr && i < devices->size(); ++i) {
      const toml::node_view<const toml::node> one((*devices)[i]);
      hosts.insert(one["host"].value_or(std::string()));
      says_links |= one["site"] || one["link"];
    }
    names_hosts_ = !hosts.empty() && hosts != std::set<std::string>{""};
    cluster().on_one_host = hosts.size() == 1 && (names_hosts_ || !says_links);
  }

  std::optional<std::int32_t> device(const std::string& name) const {
    const auto& devices = file_.problem.cluster.devices;
    const auto found = std::find_if(devices.begin(), devices.end(),
                                    [&](const planner::Device& one) { return one.name == name; });
    if (found == devices.end()) return std::nullopt;
    return static_cast<std::int32_t>(found - devices.begin());
  }

  void read_device(Section section) {
    planner::Device one;
    const std::string name = section.text("name", fmt::format("d{}", cluster().devices.size()));
    one.speed = section.number("speed", 1, 1e-6, 1e6);
    one.layer_ms = section.numbers("layer_ms", 1e-9, 1e9);
    if (!one.layer_ms.empty() && !problem().model.layers.empty() &&
        one.layer_ms.size() != problem().model.layers.size()) {
      section.complain(
          "layer_ms", fmt::format("write one time for each of the {} layers", problem().model.layers.size()));
    }
    if (!one.layer_ms.empty() && problem().model.layers.empty())
      section.complain("layer_ms", "only with the layers in this file");
    if (section.has("overhead_ms")) one.overhead_ms = section.number("overhead_ms", 0, 0, 1e6);
    if (section.has("memory_mb"))
      one.memory_bytes = std::llround(1e6 * section.number("memory_mb", 1, 1e-3, 1e9));
    one.price_per_hour = read_price(section);
    one.power_w = read_power(section);
    one.site = site(section.text("site", sites_.front()));
    const std::string host_name = section.text("host", "");
    one.host = host(host_name);
    Section link(section.table("link"), "device.link", complaints_);
    one.servers = read_wire(link, cluster().on_one_host ? kToServers : within_);
    link.finish();
    const std::int64_t count = section.integer("count", 1, 1, static_cast<std::int64_t>(kMostPlannedDevices));
    section.finish();
    for (std::int64_t i = 0; i < count; ++i) {
      if (i > 0 && host_name.empty()) one.host = host("");
      one.name = count == 1 ? name : fmt::format("{}-{}", name, i);
      if (device(one.name)) section.complain("name", fmt::format("'{}' is there twice", one.name));
      if (cluster().devices.size() == kMostPlannedDevices)
        return section.complain("count",
                                fmt::format("write fewer: at most {} devices in all", kMostPlannedDevices));
      cluster().devices.push_back(one);
    }
  }

  void read_devices() {
    Section servers(top_.table("servers"), "servers", complaints_);
    sites_.push_back(servers.text("site", ""));
    find_hosts();
    if (cluster().on_one_host) cluster().usual_overhead_ms = kPassMs;
    const double usual = cluster().on_one_host ? kServersBytesPerMs / kBytesPerMs : 10;
    cluster().server_bytes_per_ms = servers.number("gbps", usual, 1e-6, 1e6) * kBytesPerMs;
    servers.finish();
    Section within(top_.table("link"), "link", complaints_);
    within_ = read_wire(within, {0.05, 10 * kBytesPerMs});
    within.finish();
    Section between(top_.table("cross_site"), "cross_site", complaints_);
    between_ = read_wire(between, {20, 1 * kBytesPerMs});
    between.finish();
    for (const toml::table* table : top_.tables("device")) read_device({table, "device", complaints_});
    if (cluster().devices.empty()) top_.complain("device", "write at least one [[device]]");
  }

  // The devices that a name means: itself, or all of a site.
  std::vector<std::int32_t> named(Section& section, const std::string& key) {
    // Devices that name no site are at one without a name, which a key that is left out does not mean.
    if (!section.has(key)) {
      section.complain(key, "write the name of a device or of a site");
      return {};
    }
    const std::string name = section.text(key, "");
    if (const auto one = device(name)) return {*one};
    std::vector<std::int32_t> all;
    for (std::int32_t n = 0; n < cluster().size(); ++n) {
      if (sites_[static_cast<std::size_t>(cluster().devices[static_cast<std::size_t>(n)].site)] == name)
        all.push_back(n);
    }
    if (all.empty()) section.complain(key, fmt::format("'{}' is not a device and not a site", name));
    return all;
  }

  void read_links() {
    const std::int32_t count = cluster().size();
    for (std::int32_t from = 0; from < count; ++from) {
      for (std::int32_t to = 0; to < count; ++to) {
        const planner::Device& one = cluster().devices[static_cast<std::size_t>(from)];
        const planner::Device& other = cluster().devices[static_cast<std::size_t>(to)];
        const bool together = cluster().on_one_host || (names_hosts_ && one.host == other.host);
        cluster().links.push_back(together ? kBetweenProcesses : one.site != other.site ? between_ : within_);
      }
    }
    for (const toml::table* table : top_.tables("path")) {
      Section section(table, "path", complaints_);
      const std::vector<std::int32_t> from = named(section, "from"), to = named(section, "to");
      const planner::Link link = read_wire(section, between_);
      section.finish();
      for (const std::int32_t a : from) {
        for (const std::int32_t b : to) cluster().link(a, b) = cluster().link(b, a) = link;
      }
    }
  }

  void read_budget(Section section) {
    const planner::Budget budget = config::read_budget(section);
    section.finish();
    for (const planner::Budget& other : problem().budgets) {
      if (other.kind == budget.kind) section.complain("kind", "there is a budget of this kind already");
    }
    problem().budgets.push_back(budget);
  }

  void read_change(Section section) {
    ClusterChange change;
    change.at_s = section.number("at_s", 0, 0, kMostSeconds);
    change.what =
        static_cast<ClusterEvent>(section.choice("what", 0, {"speed", "link", "price", "join", "leave"}));
    const bool link = change.what == ClusterEvent::kLink;
    const std::vector<std::int32_t> from = named(section, link ? "from" : "device");
    const std::vector<std::int32_t> to = link ? named(section, "to") : std::vector<std::int32_t>{0};
    if (change.what == ClusterEvent::kSpeed) change.speed = section.number("speed", 1, 1e-6, 1e6);
    if (change.what == ClusterEvent::kPrice && !section.has("price_per_hour"))
      section.complain("price_per_hour", "write the price from then on");
    if (change.what == ClusterEvent::kPrice) change.price_per_hour = read_price(section);
    if (link) change.link = read_wire(section, between_);
    section.finish();
    for (const std::int32_t a : from) {
      for (const std::int32_t b : to) {
        change.device = a, change.other = b;
        file_.changes.push_back(change);
      }
    }
  }

  // Reads the keys that only a simulation looks at.
  void read_run() {
    file_.batches = top_.integer("batches", 1000, 1, 1'000'000);
    file_.jitter = top_.number("jitter", 0, 0, 2);
    file_.noise = top_.number("noise", 0, 0, 2);
    for (const toml::table* table : top_.tables("change")) read_change({table, "change", complaints_});
    std::stable_sort(file_.changes.begin(), file_.changes.end(),
                     [](const ClusterChange& a, const ClusterChange& b) { return a.at_s < b.at_s; });
    const toml::table* table = top_.table("planner");
    if (table == nullptr) return;
    Section section(table, "planner", complaints_);
    PlannerConfig& planner = file_.planner.emplace();
    planner.v = section.number("v", planner.v, 1e-6, 1e9);
    planner.cuts_every = section.integer("cuts_every", planner.cuts_every, 1, 1'000'000);
    planner.groups_every = section.integer("groups_every", planner.groups_every, 1, 1'000'000);
    planner.trial = section.integer("trial", planner.trial, 0, 1000);
    planner.migration_ms = section.number("migration_ms", planner.migration_ms, 0, 1e9);
    section.finish();
  }

  const toml::table& root_;
  const std::string name_;
  const ModelIs model_;
  Complaints complaints_;
  Section top_;
  ClusterFile file_;
  std::vector<std::string> sites_;  // the servers' first
  std::vector<std::string> hosts_;  // "" of a device that names none
  bool names_hosts_ = false;
  planner::Link within_, between_;
};

}  // namespace

absl::StatusOr<ClusterFile> parse_cluster(const std::string& text, const std::string& file, ModelIs model) {
  PACELINE_ASSIGN_OR_RETURN(const toml::table root, parse_toml(text, file));
  return ClusterReader(root, file, model).read();
}

}  // namespace paceline::config
