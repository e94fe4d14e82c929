package image

import v1 "github.com/google/go-containerregistry/pkg/v1"

// Image is what Build makes and Save and Push take, so that callers need not know the library behind it.
type Image = v1.Image
