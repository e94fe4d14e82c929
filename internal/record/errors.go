package record

import "fmt"

// ExistsError: a record is there already, and overwriting it was not asked for.
type ExistsError struct {
	// Path of the record that exists.
	Path string
}

func (e *ExistsError) Error() string { return e.Path + " exists already" }

// FullDiskError: the file system or a quota is full. Nothing partial was left behind.
type FullDiskError struct {
	Path string
	Err  error
}

func (e *FullDiskError) Error() string {
	return fmt.Sprintf("no space left to write %s; nothing was left there", e.Path)
}

// Unwrap gives the system's error.
func (e *FullDiskError) Unwrap() error { return e.Err }

// SchemaError: the file is of another schema than this program reads.
type SchemaError struct {
	Path string
	// Found is the schema that the file names; "" where it names none.
	Found string
}

func (e *SchemaError) Error() string {
	if e.Found == "" {
		return fmt.Sprintf("%s names no schema; a record's is %s", e.Path, Schema)
	}
	return fmt.Sprintf("%s has schema %q, and this program reads %s", e.Path, e.Found, Schema)
}

// TooLargeError: the file is larger than any record can sensibly be.
type TooLargeError struct {
	Path string
	// Limit is in bytes, uncompressed.
	Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s holds more than %d MiB and is not read", e.Path, e.Limit>>20)
}

// NotFoundError: there is nothing at the path.
type NotFoundError struct {
	Path string
	Err  error
}

func (e *NotFoundError) Error() string { return e.Path + " does not exist" }

// Unwrap gives the system's error, an fs.ErrNotExist.
func (e *NotFoundError) Unwrap() error { return e.Err }

// NoRecordError: a folder that holds no record.
type NoRecordError struct{ Path string }

func (e *NoRecordError) Error() string { return "no record in " + e.Path }

// NotRecordError: the file is no JSON, or not of a record's shape.
type NotRecordError struct {
	Path string
	Err  error
}

func (e *NotRecordError) Error() string { return fmt.Sprintf("%s is not a record: %v", e.Path, e.Err) }

// Unwrap gives what is wrong with it.
func (e *NotRecordError) Unwrap() error { return e.Err }
