// Package schema holds the JSON Schemas of the files that drainproof writes,
// for people who validate them and for the program to print.
//
// It must not know any other package of the project.
package schema

import _ "embed"

// RecordV1 is the schema of a record, drainproof.dev/record/v1 (JSON Schema 2020-12).
//
//go:embed record-v1.json
var RecordV1 []byte

// AuditV1 is the schema of an audit's report, drainproof.dev/audit/v1 (JSON Schema 2020-12).
//
//go:embed audit-v1.json
var AuditV1 []byte
