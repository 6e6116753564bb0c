// Numbers and names as a terminal shows them. Names and reasons come from other machines: no part of them may
// reach a terminal as a command. Pure functions; used by the progress line and the tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "paceline/records/stats/summary.h"

namespace paceline::report {

// The columns of a UTF-8 text, one a code point (wrong for wide or combining ones).
std::size_t columns(const std::string& text);
// Replaces control characters and broken UTF-8 by "?".
std::string printable(const std::string& text);

std::string short_number(double number);          // 1234.5 → "1.2k"; three digits at most
std::string short_duration(double seconds);       // "12s", "3m20s", "1h02m", "2d03h"
std::string rate_text(double a_second);           // "713", "12,345", "0.42": for a column
std::string seconds_text(double seconds);         // "3.14", "31.4": for a column headed "s"
std::string percent(double share, int decimals);  // 0.125 → "12.5"
// "resumed from version 120" → "resumed from version #": the same text for all reasons of a kind.
std::string without_numbers(const std::string& text);

std::string to_string(Doing doing);           // "waiting"
std::string seconds_of(World world);          // "wall s"
std::string to_string(const Target& target);  // "accuracy ≥ 90 %", "loss ≤ 1.5"

}  // namespace paceline::report
