// The functions of the CUDA driver that Paceline calls, as a table that is loaded at run time. Building needs
// no CUDA toolkit, and running needs none either: libcuda.so.1 comes with NVIDIA's driver. HIP has the same
// functions under other names (hipMemCreate, hipStreamWaitValue32, ...), so a table for AMD's cards could be
// filled in the same way; nobody has tried that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <absl/status/statusor.h>

namespace paceline::cuda {

using Result = int;  // CUresult: 0 is success
using Device = int;
using DevicePointer = std::uint64_t;
using AllocationHandle = std::uint64_t;
struct ContextTag;
struct StreamTag;
struct EventTag;
struct ModuleTag;
struct FunctionTag;
using Context = ContextTag*;
using Stream = StreamTag*;
using Event = EventTag*;
using Module = ModuleTag*;
using Function = FunctionTag*;

inline constexpr Result kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
// CUDA_ERROR_DEVICE_UNAVAILABLE: a full card has no room for another context, or one process has the card alone.
inline constexpr Result kDeviceUnavailable = 46;

struct Uuid {
  unsigned char bytes[16];
};
struct Location {
  int type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
  int id = 0;
};
struct AllocationProperties {
  int type = 1;                    // CU_MEM_ALLOCATION_TYPE_PINNED
  int requested_handle_types = 1;  // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
  Location location;
  void* win32_meta_data = nullptr;
  struct {
    unsigned char compression = 0;
    unsigned char gpu_direct_rdma = 0;
    unsigned short usage = 0;
    unsigned char reserved[4] = {};
  } flags;
};
struct AccessDescription {
  Location location;
  int flags = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};

struct Driver {
  // Loads `library`, or libcuda.so.1 if that is empty, and initializes it. Errors: Unavailable: there is no
  // driver or no card, or the driver is too old and lacks a function, which the message names.
  static absl::StatusOr<std::shared_ptr<const Driver>> load(const std::string& library = "");
  // The library that the environment names in PACELINE_CUDA_DRIVER; empty if it names none.
  static std::string library_of_environment();

  // OK, or Internal with the name of the call and of the error; ResourceExhausted if the card has no memory
  // left, or may have none.
  absl::Status check(Result result, const char* call) const;

  Result (*init)(unsigned flags);
  Result (*error_name)(Result, const char** text);
  Result (*device_count)(int* count);
  Result (*device_get)(Device*, int ordinal);
  Result (*device_name)(char* name, int length, Device);
  Result (*device_uuid)(Uuid*, Device);
  Result (*device_attribute)(int* value, int attribute, Device);
  Result (*primary_context_retain)(Context*, Device);
  Result (*primary_context_release)(Device);
  Result (*context_set_current)(Context);
  Result (*memory_info)(std::size_t* free, std::size_t* total);
  Result (*allocation_granularity)(std::size_t*, const AllocationProperties*, int option);
  Result (*memory_create)(AllocationHandle*, std::size_t bytes, const AllocationProperties*,
                          unsigned long long flags);
  Result (*memory_release)(AllocationHandle);
  Result (*memory_export)(void* descriptor, AllocationHandle, int type, unsigned long long flags);
  Result (*memory_import)(AllocationHandle*, void* descriptor, int type);
  Result (*address_reserve)(DevicePointer*, std::size_t bytes, std::size_t alignment, DevicePointer wish,
                            unsigned long long flags);
  Result (*address_free)(DevicePointer, std::size_t bytes);
  Result (*memory_map)(DevicePointer, std::size_t bytes, std::size_t offset, AllocationHandle,
                       unsigned long long flags);
  Result (*memory_unmap)(DevicePointer, std::size_t bytes);
  Result (*memory_set_access)(DevicePointer, std::size_t bytes, const AccessDescription*, std::size_t count);
  Result (*stream_create)(Stream*, unsigned flags);
  Result (*stream_destroy)(Stream);
  Result (*stream_synchronize)(Stream);
  Result (*copy)(DevicePointer to, DevicePointer from, std::size_t bytes, Stream);
  Result (*copy_to_device)(DevicePointer to, const void* from, std::size_t bytes, Stream);
  Result (*copy_to_host)(void* to, DevicePointer from, std::size_t bytes, Stream);
  Result (*set_words)(DevicePointer, std::uint32_t value, std::size_t count, Stream);
  Result (*module_load)(Module*, const void* image);
  Result (*module_unload)(Module);
  Result (*module_function)(Function*, Module, const char* name);
  Result (*launch)(Function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream, void** arguments,
                   void** extra);

 private:
  Driver() = default;
  // The library stays loaded for as long as the process runs: its threads may outlive every user of this
  // table.
};

}  // namespace paceline::cuda
