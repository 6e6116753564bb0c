// Which memory of this process a core dump holds. Linux keeps that setting across fork() and exec().
#pragma once

namespace paceline {

// For a process that has keys or a token in its memory: from now on a core dump has no memory but the first
// page of each program file, which names the program. Does nothing if there is no /proc.
void keep_memory_out_of_core_dumps();

// Restores the setting from before. For a child between fork() and exec() that runs another person's program;
// safe there.
void put_memory_into_core_dumps();

}  // namespace paceline
