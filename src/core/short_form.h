#pragma once
// Structs that a config may also write as one string, the value of their main key: "log_n" for {"method": "log_n"}.

#include "core/schema.h"

namespace posenc {

inline Json spelled_out(const Json& j, const char* key) { return j.is_string() ? Json{{key, j}} : j; }

/// JSON Schema: a choice of the main key, or the object.
template <class T>
Json describe_short_or_long(const char* key) {
  Json object = schema<T>().describe();
  Json names = object["properties"][key];
  names.erase("default");
  return {{"anyOf", {std::move(names), std::move(object)}}};
}

}  // namespace posenc
