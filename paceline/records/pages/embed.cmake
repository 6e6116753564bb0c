# Writes page_parts.cc: the page's files as string literals. Run with cmake -P:
#   SOURCE_DIR, OUTPUT, STYLES and SCRIPTS: the *.css and *.js files, separated by "|", in the order they are joined;
#   from SOURCE_DIR where a path is not absolute.
include(${CMAKE_CURRENT_LIST_DIR}/../../../cmake/string_literal.cmake)

file(READ ${SOURCE_DIR}/report.html page)
function(join variable names)
  set(joined "")
  string(REPLACE "|" ";" names "${names}")
  foreach(name IN LISTS names)
    get_filename_component(path ${name} ABSOLUTE BASE_DIR ${SOURCE_DIR})
    file(READ ${path} text)
    string(APPEND joined "${text}\n")
  endforeach()
  set(${variable} "${joined}" PARENT_SCOPE)
endfunction()
join(style "${STYLES}")
join(script "${SCRIPTS}")

set(source "#include \"paceline/records/pages/page_parts.h\"\n\nnamespace paceline::report {\n")
foreach(part page style script)
  literal(text "${${part}}")
  string(APPEND source "\nstd::string_view html_${part}() {\n  return\n${text};\n}\n")
endforeach()
string(APPEND source "\n}  // namespace paceline::report\n")
file(WRITE ${OUTPUT} "${source}")
