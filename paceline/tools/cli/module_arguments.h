// The arguments of `paceline run -m MODULE --rate 0.1`.
#pragma once

#include <string>
#include <vector>

namespace paceline::cli {

// The arguments of a module in the order of the command line `given`: the words `unknown` to the parser, in their order, and
// `taken`, which the parser took for the program. Paceline's own options stand before them as a rule, so that equal words
// are sought from the end.
std::vector<std::string> module_arguments(const std::vector<std::string>& given,
                                          const std::vector<std::string>& unknown, const std::string& taken);

}  // namespace paceline::cli
