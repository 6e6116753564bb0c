# Writes kernels_ptx.cc: the kernels' PTX as a string literal. Run with cmake -P: PTX, OUTPUT.
include(${CMAKE_CURRENT_LIST_DIR}/../../../cmake/string_literal.cmake)

file(READ ${PTX} ptx)
literal(text "${ptx}")
file(WRITE ${OUTPUT} "#include \"paceline/parameters/cuda/kernels.h\"\n\nnamespace paceline::cuda {\n\nconst char* kernels_ptx() {\n  return\n${text};\n}\n\n}  // namespace paceline::cuda\n")
