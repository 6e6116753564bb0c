// Which memory of this process a core dump holds. Linux keeps that setting across fork() and exec().
#pragma once

namespace paceline {

// For a process that has keys or a token in its memory: from now on a core dump has no memory but the first
// page of each program file, which tells what it was. Where there is no /proc nothing happens.
void keep_memory_out_of_core_dumps();

// As it was before. For a child between fork() and exec() that runs somebody else's program; safe there.
void put_memory_into_core_dumps();

}  // namespace paceline
