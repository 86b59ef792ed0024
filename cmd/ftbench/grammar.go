package main

import (
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// newParser returns the parser of a command line. It prints help to out and wrong use to err, and calls exit where
// that was all.
func newParser(to *call, exit func(code int)) *kong.Kong {
	var cli commands
	nameCommands(&cli.Osu)
	nameCommands(&cli.Fault)
	parser, err := kong.New(grammar(&cli, to.args),
		kong.Name("ftbench"),
		kong.Description("Start jobs and measure Banyan, a fault-aware transport library."),
		kong.Writers(to.out, to.err),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Help(printHelp(to)),
		kong.NamedMapper("ranks", rankMapper{}), kong.Vars{"version": version()},
	)
	if err != nil {
		panic(err) // the struct of the commands is wrong: every run of every test finds out
	}
	return parser
}

// describers are the commands that show other commands: they need all of them.
var describers = []string{"help", "completion", "docs", "complete"}

// grammar returns the grammar of a command line: a struct with the one command that the first words name, or
// cli, which has all. The parser needs some 30 ms of processor time for all, and each rank that ftbench starts
// would spend them.
func grammar(cli *commands, words []string) any {
	if len(words) == 0 || slices.Contains(describers, words[0]) {
		return cli
	}
	all := reflect.ValueOf(cli).Elem()
	one := onlyCommand(all, words)
	if !one.IsValid() {
		return cli
	}
	version, _ := all.Type().FieldByName("Version")
	pruned := structOf(one.Type().Field(0), version)
	pruned.Field(0).Set(one.Field(0))
	return pruned.Addr().Interface()
}

// onlyCommand returns a struct that has of the commands of a struct only the one that the first words name, with
// its value and tags. The result is the zero Value where they name none.
func onlyCommand(of reflect.Value, words []string) reflect.Value {
	if len(words) == 0 {
		return reflect.Value{}
	}
	for _, field := range reflect.VisibleFields(of.Type()) {
		if _, is := field.Tag.Lookup("cmd"); !is || commandName(field) != words[0] {
			continue
		}
		value := of.FieldByIndex(field.Index)
		if isGroup(value.Type()) {
			if value = onlyCommand(value, words[1:]); !value.IsValid() {
				return value
			}
		}
		field.Type = value.Type()
		one := structOf(field)
		one.Field(0).Set(value)
		return one
	}
	return reflect.Value{}
}

// structOf returns a new struct of fields with the names, types and tags of these.
func structOf(fields ...reflect.StructField) reflect.Value {
	for i, f := range fields {
		fields[i] = reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag}
	}
	return reflect.New(reflect.StructOf(fields)).Elem()
}

// nameCommands gives the commands of a group, which measure by their names, these names.
func nameCommands(group any) {
	all := reflect.ValueOf(group).Elem()
	for i := range all.NumField() {
		if c, ok := all.Field(i).Addr().Interface().(interface{ name(word string) }); ok {
			c.name(commandName(all.Type().Field(i)))
		}
	}
}

// commandName is the word that names the command of a field.
func commandName(field reflect.StructField) string {
	if name := field.Tag.Get("name"); name != "" {
		return name
	}
	return strings.ToLower(field.Name)
}

// isGroup reports whether a command consists of other commands.
func isGroup(t reflect.Type) bool {
	for field := range t.Fields() {
		if _, is := field.Tag.Lookup("cmd"); !is {
			return false
		}
	}
	return true
}
