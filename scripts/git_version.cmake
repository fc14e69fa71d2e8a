# Writes OUT with the commit and whether the tree differs from it; touches the file only when that changes.
execute_process(COMMAND git describe --always --dirty --abbrev=12 OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT version)
  set(version "unknown")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#pragma once\n#define POSENC_GIT \"${version}\"\n")
