// The layout of a model (base/layout.h) under the names that the code of shards and checkpoints has for it.
#pragma once

#include "paceline/base/dtype.h"
#include "paceline/base/layout.h"

namespace paceline::ps {

using paceline::bytes_of;
using paceline::copy_constants;
using paceline::Dtype;
using paceline::dtype_named;
using paceline::dtype_of_safetensors;
using paceline::Layout;
using paceline::name_of;
using paceline::piece_named;
using paceline::PieceName;
using paceline::safetensors_name;
using paceline::TensorKind;
using paceline::TensorSpec;

}  // namespace paceline::ps
