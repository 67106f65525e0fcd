/* Snippets that hide curl, only name it, or run other code, for bash.test.ts. */

/**
 * Snippets in which bash runs curl through a value that cannot be determined from the text. The reader must give them
 * at least the weight of a script.
 */
export const hides = [
  `read -N4 a <<< curlx; $a y`,
  `read -n4 a <<< curlx; $a y`,
  `read -d x a <<< curlx; $a y`,
  `mapfile -td x a <<< curlxy; "\${a[@]}"`,
  `read a <<< 'cu\\rl'; $a y`,
  `x=tool; builtin read x <<< curl; $x y`,
  `x=tool; r=read; $r x <<< curl; $x y`,
  `x=tool; o=-N4; read $o x <<< curlx; $x y`,
  `[[ xcurl =~ x(.*) ]] && "\${BASH_REMATCH[1]}" y`,
  `shopt -s extglob; x=zzcurl; \${x##+(z)} y`,
  `x=aaaaaaaacurl; \${x:010} y`,
  `x=c; \${x/c/&url} y`,
  `a=(x cu); a[1]+=rl; \${a[1]} y`,
  `IFS=$(printf x); c=curlxy; $c`,
  `BASH_CMDS[tool]=$(type -P curl); tool y`,
  `p=printf; $p -v BASH_CMDS[tool] "$(type -P curl)"; tool y`,
  `shopt -s expand_aliases\nBASH_ALIASES[tool]='curl y'\ntool x`,
  `shopt -s nocasematch; x=toolcurl; \${x/TOOL/} y`,
]

/** Snippets that name curl without running it. */
export const keeps = [
  `tool 'curl x'`,
  `tool "; curl x"`,
  `tool \\; curl`,
  `tool # ; curl x`,
  `cat <<'EOF'\n$(curl x)\nEOF`,
  `tool '$(curl x)'`,
  `tool \\\`curl\\\``,
  `tool "\\$(curl x)"`,
  `echo curl`,
  `x=curl`,
  `x='curl y'; tool "$x"`,
  `command -v curl`,
  `type curl`,
  `tool curl`,
  `cat <<EOF\n\\$(curl x)\nEOF`,
  `case curl in x) tool;; esac`,
  `[[ curl == x ]]`,
  `stat {curl,x}`,
  `tool $'; curl x'`,
  `for x in curl; do tool $x; done`,
  `tool curl\ntool x`,
  `stat \\\ncurl x`,
  `tool <<< 'curl x'`,
  `a=(curl x); stat "\${a[@]}"`,
  `tool "a\ncurl x"`,
  `echo a | xargs stat curl`,
  `env tool curl`,
  `timeout 5 tool curl`,
  `find . -exec tool curl \\;`,
  `eval "tool curl"`,
  `eval 'tool "; curl x"'`,
]

/** Snippets in which bash runs python3 and not curl. */
export const scripts = [
  `python3 curl`,
  `p=python3; $p x`,
  `echo x | xargs python3`,
  `find . -exec python3 {} +`,
  `timeout 5 python3 x`,
  `py"th"on3 x`,
  `sh -c 'python3 x'`,
  `f() { "$@"; }; f python3 x`,
  `$(python3 x)`,
  `env A=1 python3 x`,
  `python3 <<< 'curl x'`,
  `(python3 x)`,
]
