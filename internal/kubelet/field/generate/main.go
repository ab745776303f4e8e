// Command generate makes fields.txt: the fields of KubeletConfiguration in
// each Kubernetes release, read from the API types' source.
//
//	go run ./internal/kubelet/field/generate 30=DIR 31=DIR … > internal/kubelet/field/fields.txt
//
// where DIR is config/v1beta1 of module k8s.io/kubelet at v0.30.x, v0.31.x, …
// (go mod download -json k8s.io/kubelet@v0.35.4 tells it).
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

type field struct {
	kind string
	in   []int // minor releases that have it
}

func main() {
	fields := map[string]*field{}
	minors := []int{}
	for _, arg := range os.Args[1:] {
		n, dir, ok := strings.Cut(arg, "=")
		minor, err := strconv.Atoi(n)
		if !ok || err != nil {
			log.Fatalf("%q is not MINOR=DIR", arg)
		}
		minors = append(minors, minor)
		types := parse(filepath.Join(dir, "types.go"))
		walk(types, "KubeletConfiguration", "", func(path, kind string) {
			f := fields[path]
			if f == nil {
				f = &field{}
				fields[path] = f
			}
			f.kind = kind
			f.in = append(f.in, minor)
		})
	}
	sort.Ints(minors)
	first, last := minors[0], minors[len(minors)-1]
	fmt.Printf("# path type since until, for Kubernetes 1.%d to 1.%d; 0: no such bound. Made by field/generate.\n", first, last)
	paths := make([]string, 0, len(fields))
	for p := range fields {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	for _, p := range paths {
		f := fields[p]
		sort.Ints(f.in)
		since, until := f.in[0], f.in[len(f.in)-1]
		if since == first {
			since = 0
		}
		if until == last {
			until = 0
		}
		fmt.Println(p, f.kind, since, until)
	}
}

func parse(path string) map[string]ast.Expr {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		log.Fatal(err)
	}
	types := map[string]ast.Expr{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			if t, ok := s.(*ast.TypeSpec); ok {
				types[t.Name.Name] = t.Type
			}
		}
	}
	return types
}

func walk(types map[string]ast.Expr, name, prefix string, emit func(path, kind string)) {
	s, ok := types[name].(*ast.StructType)
	if !ok {
		log.Fatalf("%s is no struct", name)
	}
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			log.Fatal(err)
		}
		key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if key == "" {
			continue
		}
		describe(types, f.Type, prefix+key, emit)
	}
}

// describe emits one field; a pointer's kind begins with *, since absent and
// zero differ there.
func describe(types map[string]ast.Expr, t ast.Expr, path string, emit func(path, kind string)) {
	star := ""
	if p, ok := t.(*ast.StarExpr); ok {
		star, t = "*", p.X
	}
	switch t := t.(type) {
	case *ast.Ident:
		switch t.Name {
		case "string", "bool":
			emit(path, star+t.Name)
		case "int32", "int64", "int", "uint32":
			emit(path, star+"int")
		case "float64":
			emit(path, star+"float")
		default:
			if _, ok := types[t.Name].(*ast.StructType); ok {
				emit(path, star+"object")
				walk(types, t.Name, path+".", emit)
				return
			}
			describe(types, types[t.Name], path, emit)
		}
	case *ast.SelectorExpr:
		if t.Sel.Name == "Duration" {
			emit(path, star+"duration")
			return
		}
		emit(path, star+"opaque") // another module's type
	case *ast.MapType:
		emit(path, star+"map")
	case *ast.ArrayType:
		emit(path, star+"list")
	default:
		log.Fatalf("%s has a type of form %T", path, t)
	}
}
