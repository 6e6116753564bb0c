// A program that computes on the processor of a host that has a GPU: maybe because the GPU's driver does not start.
#pragma once

#include <string>

#include "paceline/computing/program/messages.h"
#include "paceline/formats/config/program_config.h"

namespace paceline::cli {

// Whether there is a GPU of NVIDIA or of AMD, with its driver. `devices`: the folder of this host's devices.
bool has_gpu(const std::string& devices = "/dev");

// A line about it, which names the way to see why. Empty if the program computes elsewhere, or if the environment names
// its device in PACELINE_DEVICE, or no GPU in CUDA_VISIBLE_DEVICES.
std::string unused_gpu_note(const config::ProgramConfig& program, const program::Model& model,
                            const std::string& devices = "/dev");

}  // namespace paceline::cli
