// Loaded before ucx_perftest (LD_PRELOAD): writes the memory that it sends and receives, once. It does not do
// so itself, and memory that was never written is one page of zeros, however much of it is sent: it is read
// from a processor's cache, as no message of anybody's is.
#include <dlfcn.h>
#include <ucp/api/ucp.h>

#include <cstring>

extern "C" ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t* params,
                                    ucp_mem_h* memory) {
  static const auto map = reinterpret_cast<decltype(&ucp_mem_map)>(dlsym(RTLD_NEXT, "ucp_mem_map"));
  const ucs_status_t status = map(context, params, memory);
  ucp_mem_attr_t about{};
  about.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
  if (status == UCS_OK && ucp_mem_query(*memory, &about) == UCS_OK) {
    std::memset(about.address, 1, about.length);
  }
  return status;
}
