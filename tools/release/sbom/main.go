// Command sbom writes what is in a Go program as a CycloneDX bill of materials: the modules and the
// version of Go that the linker has noted in it, so that the bill is of the program and not of what a go.mod
// would allow.
package main

import (
	"debug/buildinfo"
	"errors"
	"io"
	"log"
	"os"
	"path"
	"runtime/debug"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Fatalln("sbom:", err)
	}
}

// run writes the bill of the program args[0], which is of the version args[2], into the file args[1].
func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: sbom PROGRAM FILE VERSION")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	info.Main.Version = args[2]     // The linker does not know it.
	file, err := os.Create(args[1]) //nolint:gosec // Writes where it is told to.
	if err != nil {
		return err
	}
	return errors.Join(write(file, info), file.Close())
}

func write(w io.Writer, info *debug.BuildInfo) error {
	encoder := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false)
	// Not the newest, which readers do not know yet.
	return encoder.EncodeVersion(bill(info), cdx.SpecVersion1_6)
}

// bill says nothing of the time or the machine: a program has one bill.
func bill(info *debug.BuildInfo) *cdx.BOM {
	program := component(cdx.ComponentTypeApplication, &info.Main)
	program.Name = path.Base(info.Path)
	program.BOMRef = info.Path
	linked := append([]*debug.Module{{Path: "std", Version: info.GoVersion}}, info.Deps...)
	components := make([]cdx.Component, 0, len(linked))
	for _, module := range linked {
		components = append(components, component(cdx.ComponentTypeLibrary, module))
	}
	needs := make([]string, 0, len(components))
	for _, c := range components {
		needs = append(needs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &program}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &needs}}
	return bom
}

// component is a module as it was linked: what replaces another stands under its own name.
func component(kind cdx.ComponentType, module *debug.Module) cdx.Component {
	if module.Replace != nil {
		module = module.Replace
	}
	purl := "pkg:golang/" + module.Path + "@" + module.Version
	return cdx.Component{
		Type: kind, BOMRef: purl, Name: module.Path, Version: module.Version, PackageURL: purl,
	}
}
