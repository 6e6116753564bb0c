// `paceline-torch`: the same with the built-in models.
#include "paceline/cli/command_line.h"
#include "paceline/train/built_in.h"

int main(int argc, char** argv) {
  paceline::engine::use_built_in(paceline::train::built_in_models());
  return paceline::cli::run_paceline(argc, argv);
}
