# For scripts that write source files: literal(VARIABLE TEXT) sets VARIABLE to TEXT as a string literal of C++.
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
