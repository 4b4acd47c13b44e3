// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// Records between Python and this library; backends/custom/records.py defines their fields.

#ifndef MANTA_RECORDS_H
#define MANTA_RECORDS_H

#include <memory>
#include <vector>

#include "msgpack.h"
#include "objects.h"

namespace manta {

void read_backend(Reader& in, TRITONBACKEND_Backend& backend);
// Returns the path of the batching library; empty for none.
std::string read_model(Reader& in, TRITONBACKEND_Model& model);
void read_instance(Reader& in, TRITONBACKEND_ModelInstance& instance);
std::unique_ptr<TRITONBACKEND_Request> read_request(
    Reader& in, TRITONBACKEND_Model& model, const std::shared_ptr<Mailbox>& mailbox);
void write_events(Writer& out, std::vector<Event>& events);

}  // namespace manta

#endif
