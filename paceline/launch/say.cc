#include "paceline/launch/say.h"

namespace paceline::launch {

void say(std::FILE* out, const std::string& text) {
  std::fputs(text.c_str(), out);
  std::fflush(out);
}

}  // namespace paceline::launch
