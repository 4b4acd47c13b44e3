// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// Metrics of a library's own. Families of one name and metrics with equal labels are one in the
// whole process; a metric is shown as long as somebody has not deleted it.
//
// Triton: core/src/metric_family.cc @73aad7c

#include "metrics.h"

#include <time.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>

#include "objects.h"

namespace metric_registry {

using Labels = std::map<std::string, std::string>;

struct Series {
  double value = 0;
  int64_t set_ns = 0;
  std::vector<double> bounds;
  std::vector<uint64_t> counts;
  int owner_count = 0;
};

struct Family {
  std::string description;
  TRITONSERVER_MetricKind kind;
  std::map<Labels, Series> series;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Family> families;
};

// Never destroyed: libraries' threads may count while the process ends.
Registry& registry() {
  static Registry* made = new Registry;
  return *made;
}

constexpr const char* kind_names[] = {"COUNTER", "GAUGE", "HISTOGRAM"};

// Letters, digits, underscores and what else may be there; no digit first.
bool is_name(const std::string& text, const std::string& others) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
  return std::all_of(text.begin(), text.end(), [&others](unsigned char each) {
    return each == '_' || (each < 128 && std::isalnum(each)) ||
           others.find(static_cast<char>(each)) != std::string::npos;
  });
}

TRITONSERVER_Error* invalid(const std::string& text) {
  return manta::failure(TRITONSERVER_ERROR_INVALID_ARG, text);
}

}  // namespace metric_registry

using namespace metric_registry;

struct TRITONSERVER_MetricFamily {
  std::string name;
  TRITONSERVER_MetricKind kind;
  int metric_count = 0;
};

struct TRITONSERVER_MetricArgs {
  bool is_histogram = false;
  std::vector<double> bounds;
};

struct TRITONSERVER_Metric {
  TRITONSERVER_MetricFamily* family;
  TRITONSERVER_MetricKind kind;
  Labels labels;
  Series* series;
};

namespace {

TRITONSERVER_Error* unsupported(const TRITONSERVER_Metric* metric, const char* operation) {
  return manta::failure(
      TRITONSERVER_ERROR_UNSUPPORTED, std::string("TRITONSERVER_METRIC_KIND_") +
                                          kind_names[metric->kind] + " does not support " +
                                          operation);
}

TRITONSERVER_Error* take_labels(
    Labels& labels, const TRITONSERVER_Parameter** given, uint64_t count) {
  for (uint64_t each = 0; each < count; ++each) {
    const manta::Parameter& label = given[each]->value;
    if (label.type != TRITONSERVER_PARAMETER_STRING) {
      return invalid(
          "Parameter [" + label.name +
          "] must have a type of TRITONSERVER_PARAMETER_STRING to be added as a label.");
    }
    if (label.name.rfind("__", 0) == 0 || !is_name(label.name, "")) return invalid("Invalid label name");
    labels[label.name] = label.text;
  }
  return nullptr;
}

TRITONSERVER_Error* take_bounds(
    std::vector<double>& bounds, TRITONSERVER_MetricKind kind,
    const TRITONSERVER_MetricArgs* args) {
  if (kind != TRITONSERVER_METRIC_KIND_HISTOGRAM) {
    if (args == nullptr) return nullptr;
    return invalid(
        std::string("Unexpected args found in ") +
        (kind == TRITONSERVER_METRIC_KIND_COUNTER ? "counter" : "gauge") +
        " Metric constructor.");
  }
  if (args == nullptr) return invalid("Bucket boundaries not found in Metric args.");
  if (!args->is_histogram) return invalid("Metric args not set to histogram kind.");
  bounds = args->bounds;
  const double infinity = std::numeric_limits<double>::infinity();
  // There always is a bucket up to infinity.
  if (!bounds.empty() && bounds.back() == infinity) bounds.pop_back();
  double last = -infinity;
  for (double bound : bounds) {
    // Not a number is above nothing.
    if (!(bound > last)) return invalid("Bucket Boundaries must be strictly sorted");
    last = bound;
  }
  return nullptr;
}

}  // namespace

TRITONSERVER_Error* TRITONSERVER_MetricFamilyNew(
    TRITONSERVER_MetricFamily** made, TRITONSERVER_MetricKind kind, const char* name,
    const char* description) {
  if (kind < 0 || kind > TRITONSERVER_METRIC_KIND_HISTOGRAM) {
    return invalid("Unsupported kind passed to MetricFamily constructor.");
  }
  if (!is_name(name, ":")) return invalid("Invalid metric name");
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  const auto [found, is_new] = all.families.try_emplace(name, Family{description, kind, {}});
  if (found->second.kind != kind) {
    return invalid("Family name already exists with different type");
  }
  *made = new TRITONSERVER_MetricFamily{name, kind};
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily* family) {
  std::lock_guard lock(registry().mutex);
  if (family->metric_count > 0) {
    return manta::failure(
        TRITONSERVER_ERROR_INTERNAL,
        "Must call MetricDelete on all dependent metrics before calling MetricFamilyDelete.");
  }
  delete family;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_GetMetricFamilyKind(
    TRITONSERVER_MetricFamily* family, TRITONSERVER_MetricKind* kind) {
  *kind = family->kind;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MetricArgsNew(TRITONSERVER_MetricArgs** args) {
  *args = new TRITONSERVER_MetricArgs;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MetricArgsSetHistogram(
    TRITONSERVER_MetricArgs* args, const double* buckets, uint64_t count) {
  args->is_histogram = true;
  args->bounds.assign(buckets, buckets + count);
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MetricArgsDelete(TRITONSERVER_MetricArgs* args) {
  delete args;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MetricNew(
    TRITONSERVER_Metric** metric, TRITONSERVER_MetricFamily* family,
    const TRITONSERVER_Parameter** labels, uint64_t label_count) {
  return TRITONSERVER_MetricNewWithArgs(metric, family, labels, label_count, nullptr);
}

TRITONSERVER_Error* TRITONSERVER_MetricNewWithArgs(
    TRITONSERVER_Metric** metric, TRITONSERVER_MetricFamily* family,
    const TRITONSERVER_Parameter** given, uint64_t label_count,
    const TRITONSERVER_MetricArgs* args) {
  Labels labels;
  std::vector<double> bounds;
  if (TRITONSERVER_Error* error = take_labels(labels, given, label_count)) return error;
  if (TRITONSERVER_Error* error = take_bounds(bounds, family->kind, args)) return error;
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  const auto [found, is_new] = all.families.at(family->name).series.try_emplace(labels);
  Series& series = found->second;
  if (is_new && args != nullptr) {
    series.bounds = bounds;
    series.counts.assign(bounds.size() + 1, 0);
  }
  ++series.owner_count;
  ++family->metric_count;
  *metric = new TRITONSERVER_Metric{family, family->kind, labels, &series};
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MetricDelete(TRITONSERVER_Metric* metric) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  --metric->family->metric_count;
  if (--metric->series->owner_count == 0) {
    all.families.at(metric->family->name).series.erase(metric->labels);
  }
  delete metric;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MetricValue(TRITONSERVER_Metric* metric, double* value) {
  if (metric->kind == TRITONSERVER_METRIC_KIND_HISTOGRAM) return unsupported(metric, "Value");
  std::lock_guard lock(registry().mutex);
  *value = metric->series->value;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MetricIncrement(TRITONSERVER_Metric* metric, double value) {
  if (metric->kind == TRITONSERVER_METRIC_KIND_HISTOGRAM) return unsupported(metric, "Increment");
  if (metric->kind == TRITONSERVER_METRIC_KIND_COUNTER && value < 0) {
    return invalid(
        "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative "
        "values.");
  }
  std::lock_guard lock(registry().mutex);
  metric->series->value += value;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MetricSet(TRITONSERVER_Metric* metric, double value) {
  if (metric->kind != TRITONSERVER_METRIC_KIND_GAUGE) return unsupported(metric, "Set");
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::lock_guard lock(registry().mutex);
  metric->series->value = value;
  metric->series->set_ns = now.tv_sec * 1'000'000'000LL + now.tv_nsec;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MetricObserve(TRITONSERVER_Metric* metric, double value) {
  if (metric->kind != TRITONSERVER_METRIC_KIND_HISTOGRAM) return unsupported(metric, "Observe");
  std::lock_guard lock(registry().mutex);
  Series& series = *metric->series;
  const auto bucket = std::lower_bound(series.bounds.begin(), series.bounds.end(), value);
  ++series.counts[bucket - series.bounds.begin()];
  series.value += value;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_GetMetricKind(
    TRITONSERVER_Metric* metric, TRITONSERVER_MetricKind* kind) {
  *kind = metric->kind;
  return nullptr;
}

namespace manta {

void write_metrics(Writer& out) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::vector<std::pair<const std::string*, const Family*>> shown;
  for (const auto& [name, family] : all.families) {
    if (!family.series.empty()) shown.emplace_back(&name, &family);
  }
  out.array(shown.size());
  for (const auto& [name, family] : shown) {
    out.array(4);
    out.text(*name);
    out.text(family->description);
    out.integer(family->kind);
    out.array(family->series.size());
    for (const auto& [labels, series] : family->series) {
      out.array(5);
      out.array(labels.size());
      for (const auto& [label, value] : labels) {
        out.array(2);
        out.text(label);
        out.text(value);
      }
      out.number(series.value);
      out.integer(series.set_ns);
      out.array(series.bounds.size());
      for (double bound : series.bounds) out.number(bound);
      out.array(series.counts.size());
      for (uint64_t count : series.counts) out.integer(count);
    }
  }
}

}  // namespace manta
