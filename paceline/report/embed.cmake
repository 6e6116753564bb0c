# Writes page_parts.cc: the page's files as string literals. Run with cmake -P:
#   SOURCE_DIR, OUTPUT, and SCRIPTS: the *.js files, separated by "|", in the order they are joined.
# A literal stays below 16 kB, which every compiler takes; neighbours are one string to the compiler.
set(chunk 8000)

function(literal variable text)
  string(LENGTH "${text}" length)
  set(result "")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} ${chunk} piece)
    string(APPEND result "R\"PART(${piece})PART\"\n")
    math(EXPR at "${at} + ${chunk}")
  endwhile()
  set(${variable} "${result}" PARENT_SCOPE)
endfunction()

file(READ ${SOURCE_DIR}/report.html page)
file(READ ${SOURCE_DIR}/report.css style)
set(script "")
string(REPLACE "|" ";" SCRIPTS "${SCRIPTS}")
foreach(name IN LISTS SCRIPTS)
  file(READ ${SOURCE_DIR}/${name} text)
  string(APPEND script "${text}")
endforeach()

set(source "#include \"paceline/report/page_parts.h\"\n\nnamespace paceline::report {\n")
foreach(part page style script)
  literal(text "${${part}}")
  string(APPEND source "\nstd::string_view html_${part}() {\n  return\n${text};\n}\n")
endforeach()
string(APPEND source "\n}  // namespace paceline::report\n")
file(WRITE ${OUTPUT} "${source}")
