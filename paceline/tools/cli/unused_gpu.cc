#include "paceline/tools/cli/unused_gpu.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace paceline::cli {

namespace {

bool is_meant() {
  const char* const device = std::getenv("PACELINE_DEVICE");
  if (device != nullptr && *device != '\0') return true;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && (*visible == '\0' || std::string_view(visible) == "-1");
}

}  // namespace

bool has_gpu(const std::string& devices) {
  std::error_code error;
  return std::filesystem::exists(devices + "/nvidiactl", error) ||
         std::filesystem::exists(devices + "/kfd", error);
}

std::string unused_gpu_note(const config::ProgramConfig& program, const program::Model& model,
                            const std::string& devices) {
  if (model.device != "cpu" || is_meant() || !has_gpu(devices)) return "";
  return fmt::format(
      "{} computes on the processor, and this host has a GPU; {} -c 'import torch; torch.cuda.init()' says "
      "why PyTorch does not use it; set PACELINE_DEVICE=cpu if you mean the processor",
      config::named(program), program.python);
}

}  // namespace paceline::cli
