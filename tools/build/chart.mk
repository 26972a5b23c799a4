# SPDX-License-Identifier: Apache-2.0
# make test-chart: deploy/chart rendered by Helm. No part of `make test`.

.PHONY: test-chart chart
## chart: write values, schema and table of values of deploy/chart from its rules
chart:
	@tools/chart

## test-chart: test the Helm chart, and that `unirail manifests` prints the same (the first run builds Helm, some minutes; K=notes: only these tests)
test-chart: $(BIN)
	@tools/need test cluster
	@tools/pytest tests/chart $(if $(K),-k '$(K)')
