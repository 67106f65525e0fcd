/** Texts that could take long to read: deep, wide or repetitive, each as long as the longest command that is read. */
const length = 10_000
const filled = (piece: string, much = length): string =>
  piece.repeat(Math.ceil(much / piece.length)).slice(0, much)
const around = (open: string, close: string, times: number, inner = 'x'): string =>
  open.repeat(times) + inner + close.repeat(times)
const levels = (open: string, close: string, fill: string): string =>
  (open + fill).repeat(63) + close.repeat(63)
const numbered = (count: number, line: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => line(at)).join(';')

export const hostile: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    [
      ...['a ', 'a;', 'a|', 'a && ', '(', '( ', '{ ', '{a,', '{a,b} ', "'a'", '"a"', '\\\n', '$a'],
      ...['$', '~', '\\', '\r', '\0', '\n', '! ', 'a=b ', 'a[b]=c ', 'a=(', '@(', '*(a)', '[a]', '['],
      ...['[[:alpha:', '*?', '((', '$[', '>a ', '{a}>b ', '<<<a ', '<<A ', '#a\n', 'if a; then '],
      ...['while a; do ', 'for a in b; do ', 'f(){ ', 'f(){ a; };', 'case a in b) ', 'coproc '],
      ...['time ', 'a[', "$'a'", '$"a"', 'x=$x$x;', 'sudo ', 'env -Z ', 'nice sudo -Q ', 'eval '],
      ...['PAGER=ls ', 'LD_PRELOAD="a b" ', "alias a='b';", 'fd -x ', 'npx ', 'echo a | sh;'],
      ...['read a <<< b;$a;', 'sudo --yy ', 'docker -z ', 'git gh aws ', '${x/a/b}', "trap 'ls' A;"],
      ...["sed 's/a/b/e';", '$((a) '],
    ].map((piece) => [`${JSON.stringify(piece)} again and again`, filled(piece)]),
  ),
  'nested subshells': around('(', ')', 4000),
  'nested braces': around('{a,', '}', 2500),
  'nested groups in arithmetic': `$((${around('(', ')', 3000, '1')}))`,
  'a long sum': `$((${'1+'.repeat(4500)}1))`,
  'nested old arithmetic': around('$[', ']', 2500, '1'),
  'nested tests': `[[ ${around('( ', ' )', 2000, 'a')} ]]`,
  'negated tests': `[[ ${'! '.repeat(4500)}a ]]`,
  'substitutions in each other': levels('$( ', ')', 'a '.repeat(60)),
  'quoted substitutions in each other': levels('"$( ', ')"', 'a '.repeat(60)),
  'substitutions never closed': levels('$( ', '', 'a '.repeat(60)),
  'defaults in each other': levels('${a:-', '}', 'b'.repeat(140)),
  'arithmetic in itself': levels('$((1+', '))', '1+'.repeat(60)),
  'process substitutions in each other': around('<(', ')', 63),
  'variables of variables': `${numbered(300, (at) => `a${at + 1}=$a${at}$a${at}`)};$a300`,
  'variables of quoted variables': `a0=xxxx;${numbered(200, (at) => `a${at + 1}="$a${at}"`)};$a200`,
  'texts of printf': numbered(200, (at) => `printf -v a${at + 1} %s%s $a${at} $a${at}`),
  'a value split by a letter': `IFS=a; x=${filled('ab', 9000)}; for y in $x $x $x $x; do $y; done`,
  'replacements in a long value': `x=${filled('b', 9000)}; ${'${x//b/c};'.repeat(60)}`,
  'many elements': `a=($z ${filled('b ', 2600)}); ${'${a[1]};'.repeat(60)}`,
  'slices of many elements': `a=($z ${filled('b ', 2600)}); ${'"${a[@]:1}";'.repeat(60)}`,
  'elements taken away': `a=(b c);${`unset 'a[0]';`.repeat(200)}"\${a[@]}"`,
  'loops over each other': numbered(60, (at) => `for x${at} in ${filled('b ', 24)}$x${at + 1}; do :; done`),
  'many variables to read': `read ${filled('v ', 1400)} <<< '${filled('b ', 4800)}'`,
  'brackets in a value': `x='${filled('[', 9000)}'`,
  'brackets in a value of a builtin': `declare 'x${filled('[', 9000)}'`,
  'texts that grow': 'x+=a[;'.repeat(700),
  'elements from the end': `a=(${'b '.repeat(1_400)}); ${'${a[-1]};'.repeat(60)}`,
  'a setting of apt': `apt -o '${'hook-'.repeat(1_800)}'`,
  'variables between options': `sudo ${'A=1 -n '.repeat(1_000)}`,
  'long names in short': `env ${'--un=X '.repeat(1_200)}`,
  'nothing but quotes': filled("'", 9999),
  'words beyond the limit': filled('git ', 120_000),
  'functions of functions': `${numbered(200, (at) => `f${at}(){ f${at + 1}; f${at + 1}; }`)};f0`,
  'loops of loops': `for a in ${filled('b ', 3000)}; do for c in ${filled('d ', 3000)}; do $a $c; done; done`,
  'shells of shells': numbered(200, () => `bash -c 'eval "ls; eval ls"'`),
  'a heredoc for a shell': `bash <<E\n${filled('ls\n', 9000)}\nE`,
  'a program for sed': `sed '${filled('s/a/b/;', 9000)}'`,
  'brackets for sed': `sed 's/${filled('[', 9000)}/'`,
  'a program for awk': `awk '${filled('"a"|', 9000)}'`,
  'settings for git': `git ${filled('-c a=b ', 9000)}`,
  'launchers of launchers': `${'railway run '.repeat(700)}x`,
  'launchers behind dashes': `${'nx exec -- '.repeat(450)}x`,
  'runners with unknown options': `${'conda run --x '.repeat(450)}x`,
  'version managers of version managers': `${'nvm exec 20 '.repeat(450)}x`,
  'commands for find': `find ${filled('-exec a \\; ', 9000)}`,
  'a pattern for a name': `${filled('*?', 190)} x`,
  'heredocs on a line': `${filled('<<A ', 5000)}\n${filled('\n', 4000)}`,
  'a megabyte of words': 'git '.repeat(300_000),
  'a megabyte of one word': 'a'.repeat(1_000_000),
  'a megabyte of openers': '$('.repeat(500_000),
  'a megabyte of quotes': `'\\`.repeat(500_000),
  'a megabyte in a heredoc': `cat > a <<'E'\n${'curl `x`\n'.repeat(110_000)}E\n`,
}
