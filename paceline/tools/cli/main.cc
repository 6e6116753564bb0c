// `paceline`: starts at once, without the built-in models.
#include "paceline/tools/cli/command_line.h"

int main(int argc, char** argv) { return paceline::cli::run_paceline(argc, argv); }
