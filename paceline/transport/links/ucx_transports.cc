#include "paceline/transport/links/ucx_transports.h"

#include <span>

#include <fmt/format.h>
#include <uct/api/uct.h>

namespace paceline::links {

namespace {

void add_of(uct_md_h domain, std::vector<std::string>& names) {
  uct_tl_resource_desc_t* found = nullptr;
  unsigned count = 0;
  if (uct_md_query_tl_resources(domain, &found, &count) != UCS_OK) return;
  for (const uct_tl_resource_desc_t& one : std::span(found, count)) {
    if (one.dev_type == UCT_DEVICE_TYPE_NET)
      names.push_back(fmt::format("{} on {}", one.tl_name, one.dev_name));
  }
  uct_release_tl_resource_list(found);
}

void add_of(uct_component_h component, const char* domain_name, std::vector<std::string>& names) {
  uct_md_config_t* config = nullptr;
  if (uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK) return;
  uct_md_h domain = nullptr;
  const ucs_status_t opened = uct_md_open(component, domain_name, config, &domain);
  uct_config_release(config);
  if (opened != UCS_OK) return;
  add_of(domain, names);
  uct_md_close(domain);
}

void add_of(uct_component_h component, std::vector<std::string>& names) {
  uct_component_attr_t about{};
  about.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
  if (uct_component_query(component, &about) != UCS_OK || about.md_resource_count == 0) return;
  std::vector<uct_md_resource_desc_t> domains(about.md_resource_count);
  about.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  about.md_resources = domains.data();
  if (uct_component_query(component, &about) != UCS_OK) return;
  for (const uct_md_resource_desc_t& domain : domains) add_of(component, domain.md_name, names);
}

}  // namespace

std::vector<std::string> ucx_transports() {
  std::vector<std::string> names;
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (uct_query_components(&components, &count) != UCS_OK) return names;
  for (uct_component_h one : std::span(components, count)) add_of(one, names);
  uct_release_component_list(components);
  return names;
}

}  // namespace paceline::links
