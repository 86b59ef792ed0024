package warm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// tablesName is the end of the name of the section with Go's tables of functions: .gopclntab, with a prefix where
// the program may lie anywhere.
const tablesName = ".gopclntab"

// mostSections bounds the list of sections that is read.
const mostSections = 1 << 12

// section is a part of a file.
type section struct {
	offset, size uint64
	fixed        bool // the memory is as the file: the loader changes nothing there
}

// tables finds Go's tables of functions in a program; a section of no size where it has no list of sections.
func tables(exe string) (section, error) {
	f, err := os.Open(exe)
	if err != nil {
		return section{}, fmt.Errorf("warm: %w", err)
	}
	defer f.Close()
	return findTables(f)
}

// findTables reads the ELF header (gabi, "ELF Header"), then the headers of the sections and their names. With package
// debug/elf programs have 4 % more code, all of which is mapped.
func findTables(f io.ReaderAt) (section, error) {
	var h struct {
		Ident                                   [16]byte
		Type, Machine                           uint16
		Version                                 uint32
		Entry, Programs, Sections               uint64
		Flags                                   uint32
		Size, ProgramSize, ProgramCount         uint16
		SectionSize, SectionCount, SectionNames uint16
	}
	const sectionBytes = 64
	le := binary.LittleEndian
	if err := binary.Read(io.NewSectionReader(f, 0, 64), le, &h); err != nil {
		return section{}, fmt.Errorf("warm: the program's header: %w", err)
	}
	known := bytes.HasPrefix(h.Ident[:], []byte("\x7fELF\x02\x01"))
	if !known || h.SectionSize != sectionBytes || h.SectionCount > mostSections || h.SectionNames >= h.SectionCount {
		return section{}, nil
	}
	list := make([]byte, int(h.SectionCount)*sectionBytes)
	if _, err := f.ReadAt(list, int64(h.Sections)); err != nil {
		return section{}, fmt.Errorf("warm: the program's sections: %w", err)
	}
	at := func(i int) (name uint32, s section) {
		b := list[i*sectionBytes:]
		return le.Uint32(b), section{offset: le.Uint64(b[24:]), size: le.Uint64(b[32:])}
	}
	_, names := at(int(h.SectionNames))
	for i := range int(h.SectionCount) {
		name, s := at(i)
		var text [32]byte
		n, _ := f.ReadAt(text[:], int64(names.offset)+int64(name))
		if own, _, ended := bytes.Cut(text[:n], []byte{0}); ended && bytes.HasSuffix(own, []byte(tablesName)) {
			s.fixed = string(own) == tablesName
			return s, nil
		}
	}
	return section{}, nil
}
