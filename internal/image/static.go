package image

import (
	"debug/elf"
	"fmt"
	"os"

	"github.com/drainproof/drainproof/internal/fault"
)

// machines are the architectures that an image can be made for.
var machines = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// checkStatic makes sure that the binary runs on an empty base: a Linux
// executable of the wanted architecture that needs no loader. It gives the architecture.
func checkStatic(binary, want string) (string, error) {
	if _, err := os.Stat(binary); err != nil {
		return "", fault.Usagef("give the path of a static Linux executable; `make build` makes one", "reading %s: %v", binary, err)
	}
	f, err := elf.Open(binary)
	if err != nil {
		return "", unfit(binary, "it is not a Linux (ELF) executable")
	}
	defer f.Close()
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return "", unfit(binary, "it is an ELF file, but no executable")
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", unfit(binary, "it is linked dynamically, and an image without a base has no loader")
		}
	}
	arch, ok := machines[f.Machine]
	if !ok {
		return "", unfit(binary, fmt.Sprintf("it is built for %s, not for amd64 or arm64", f.Machine))
	}
	if want != "" && want != arch {
		return "", unfit(binary, fmt.Sprintf("it is built for %s, not for %s", arch, want))
	}
	return arch, nil
}

func unfit(binary, why string) error {
	return fault.Usagef("run `make build` (CGO_ENABLED=0 GOOS=linux), which makes a static one, and use bin/drainproof",
		"no image can be made of %s: %s", binary, why)
}
