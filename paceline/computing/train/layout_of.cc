#include <torch/nn/modules/container/sequential.h>

#include "paceline/computing/train/model.h"
#include "paceline/computing/train/models.h"

namespace paceline::train {

std::vector<NamedTensor> layout_tensors(torch::nn::Sequential& model) {
  std::vector<NamedTensor> tensors;
  for (const auto& parameter : model->named_parameters()) {
    tensors.push_back({parameter.key(), ps::TensorKind::kParameter, parameter.value()});
  }
  for (const auto& buffer : model->named_buffers()) {
    const std::string& name = buffer.key();
    if (!name.ends_with(".running_mean") && !name.ends_with(".running_var")) continue;
    tensors.push_back({name, ps::TensorKind::kStatistic, buffer.value()});
  }
  return tensors;
}

ps::Layout layout_of(torch::nn::Sequential& model) {
  ps::Layout layout;
  for (const NamedTensor& tensor : layout_tensors(model)) {
    layout.add(tensor.name, tensor.kind, tensor.tensor.sizes().vec());
  }
  return layout;
}

}  // namespace paceline::train
