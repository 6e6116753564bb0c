#include "paceline/parameters/cuda/driver.h"

#include <cstdlib>

#include <dlfcn.h>
#include <fmt/format.h>

#include "paceline/base/status_macros.h"

namespace paceline::cuda {

namespace {

template <class Function>
absl::Status find(void* library, const char* name, Function*& into) {
  into = reinterpret_cast<Function*>(dlsym(library, name));
  if (into != nullptr) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("the CUDA driver is too old: it has no {}", name));
}

}  // namespace

std::string Driver::library_of_environment() {
  const char* const named = std::getenv("PACELINE_CUDA_DRIVER");
  return named == nullptr ? "" : named;
}

absl::StatusOr<std::shared_ptr<const Driver>> Driver::load(const std::string& library) {
  const std::string name = library.empty() ? "libcuda.so.1" : library;
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return absl::UnavailableError(fmt::format("no CUDA driver: {}", dlerror()));
  std::shared_ptr<Driver> driver(new Driver);
  absl::Status found;
  const auto load = [&](const char* function, auto& into) { found.Update(find(handle, function, into)); };
  load("cuInit", driver->init);
  load("cuGetErrorName", driver->error_name);
  load("cuDeviceGetCount", driver->device_count);
  load("cuDeviceGet", driver->device_get);
  load("cuDeviceGetName", driver->device_name);
  load("cuDeviceGetUuid_v2", driver->device_uuid);
  load("cuDeviceGetAttribute", driver->device_attribute);
  load("cuDevicePrimaryCtxRetain", driver->primary_context_retain);
  load("cuDevicePrimaryCtxRelease_v2", driver->primary_context_release);
  load("cuCtxSetCurrent", driver->context_set_current);
  load("cuMemGetInfo_v2", driver->memory_info);
  load("cuMemGetAllocationGranularity", driver->allocation_granularity);
  load("cuMemCreate", driver->memory_create);
  load("cuMemRelease", driver->memory_release);
  load("cuMemExportToShareableHandle", driver->memory_export);
  load("cuMemImportFromShareableHandle", driver->memory_import);
  load("cuMemAddressReserve", driver->address_reserve);
  load("cuMemAddressFree", driver->address_free);
  load("cuMemMap", driver->memory_map);
  load("cuMemUnmap", driver->memory_unmap);
  load("cuMemSetAccess", driver->memory_set_access);
  load("cuStreamCreate", driver->stream_create);
  load("cuStreamDestroy_v2", driver->stream_destroy);
  load("cuStreamSynchronize", driver->stream_synchronize);
  load("cuMemcpyDtoDAsync_v2", driver->copy);
  load("cuMemcpyHtoDAsync_v2", driver->copy_to_device);
  load("cuMemcpyDtoHAsync_v2", driver->copy_to_host);
  load("cuMemsetD32Async", driver->set_words);
  load("cuModuleLoadData", driver->module_load);
  load("cuModuleUnload", driver->module_unload);
  load("cuModuleGetFunction", driver->module_function);
  load("cuLaunchKernel", driver->launch);
  PACELINE_RETURN_IF_ERROR(found);
  const absl::Status begun = driver->check(driver->init(0), "cuInit");
  if (!begun.ok()) return absl::UnavailableError(std::string(begun.message()));
  return driver;
}

absl::Status Driver::check(Result result, const char* call) const {
  if (result == 0) return absl::OkStatus();
  const char* name = nullptr;
  if (error_name(result, &name) != 0 || name == nullptr) name = "an unknown error";
  const std::string text = fmt::format("{}: {} ({})", call, name, result);
  const bool full = result == kOutOfMemory || result == kDeviceUnavailable;
  return full ? absl::ResourceExhaustedError(text) : absl::InternalError(text);
}

}  // namespace paceline::cuda
