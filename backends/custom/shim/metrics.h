// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

#ifndef MANTA_METRICS_H
#define MANTA_METRICS_H

#include "msgpack.h"

namespace manta {

// Writes the metrics of this process as a list of backends.api.custom_metrics.CustomFamily.
void write_metrics(Writer& out);

}  // namespace manta

#endif
