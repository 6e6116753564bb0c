// The table of the built-in models, also for folders without libtorch. A new model is one line here and one
// source file in train/, which defines `const Model Models::IDENTIFIER` (train/models.h). A line without a
// definition does not link; a definition without a line does not compile.
#pragma once

#include <string>
#include <vector>

// MODEL(IDENTIFIER, its name in job files). Messages list them in this order.
#define PACELINE_MODELS(MODEL)          \
  MODEL(mlp, "mlp")                     \
  MODEL(cnn, "cnn")                     \
  MODEL(alexnet_small, "alexnet-small") \
  MODEL(alexnet, "alexnet")             \
  MODEL(resnet20, "resnet20")           \
  MODEL(resnet50, "resnet50")           \
  MODEL(resnet56, "resnet56")           \
  MODEL(resnet110, "resnet110")         \
  MODEL(vgg11, "vgg11")                 \
  MODEL(vgg16, "vgg16")                 \
  MODEL(vgg16_plain, "vgg16-plain")     \
  MODEL(gpt_byte, "gpt-byte")

namespace paceline::config {

inline const std::vector<std::string>& model_names() {
#define PACELINE_NAME_OF(identifier, name) name,
  static const std::vector<std::string> kNames = {PACELINE_MODELS(PACELINE_NAME_OF)};
#undef PACELINE_NAME_OF
  return kNames;
}

}  // namespace paceline::config
