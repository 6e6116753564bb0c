// The options of `cgp` that a job file may have as keys of [sync], beside those in the policy's text. Pure.
#pragma once

#include <string>

#include <toml++/toml.h>

#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/formats/config/section.h"

namespace paceline::config {

// Reads the keys, for the options that the policy's text leaves out. `policy_text`: the policy as the file has it. Complains
// about a key whose option is in the text too. Other policies than `cgp` have no such keys: theirs are read and forgotten.
void read_cgp_keys(Section& sync, const std::string& policy_text, policy::PolicySpec& policy);

// Takes the options that have a key out of the policy's text in a recorded job: the key counted in versions that let a job say
// both. Returns whether there were any.
bool take_out_what_keys_say(toml::table& job);

}  // namespace paceline::config
