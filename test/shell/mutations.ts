import fc from 'fast-check'
import { rowsOf } from './rows.ts'

const commands = [...rowsOf('dev'), ...rowsOf('corpus')].map(({ command }) => command)
export const short = commands.filter((command) => command.length < 300)

/** Pieces of syntax that open, close, join or quote something. */
const signs =
  `; & | && || |& ( ) { } [[ ]] (( )) $( \` " ' \\ $ \${ \${! } < > << <<- <<< <( >( \n \r \t \0 # ! * ? [ ] ~ = +=
  if then fi for do done case esac in while function coproc time eval exec $' $" $[ \\\n \u00a0 {a,b} \${x@P} /dev/tcp/ 2>&1
  EOF <<EOF <<'E' x=1 $x "$@" -c -- {} \\; + %`
    .split(' ')
    .map((sign) => sign.trim() || sign)
const sign = fc.constantFrom(...signs)
const command = fc.constantFrom(...short)
const place = fc.nat(400)

/** Commands of people and agents, mutated: joined, nested, cut, with syntax inserted. */
export const mutated: fc.Arbitrary<string> = fc.oneof(
  { weight: 3, arbitrary: fc.tuple(command, place, sign).map(([text, at, put]) => inserted(text, at, put)) },
  { weight: 2, arbitrary: fc.tuple(command, place, place).map(([text, a, b]) => cut(text, a, b)) },
  {
    weight: 3,
    arbitrary: fc
      .tuple(command, fc.constantFrom(' ', '; ', ' && ', ' | ', '\n', ' & ', ' || ', '', ' <<< '), command)
      .map((parts) => parts.join('')),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(command, place, command).map(([text, at, other]) => inserted(text, at, other)),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        command,
        fc.constantFrom(...['$(', '`', '"$(', '(', '{ ', "'", '"', '<(', '${x:-', '[[ ', 'f() { '].keys()),
      )
      .map(([text, which]) => nested(text, which)),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(command, fc.array(fc.tuple(place, sign), { minLength: 2, maxLength: 6 }))
      .map(([text, all]) => all.reduce((bent, [at, put]) => inserted(bent, at, put), text)),
  },
  { weight: 1, arbitrary: fc.array(sign, { maxLength: 40 }).map((all) => all.join(' ')) },
  { weight: 1, arbitrary: fc.array(sign, { maxLength: 40 }).map((all) => all.join('')) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 60 }) },
  {
    weight: 1,
    arbitrary: fc.tuple(sign, fc.integer({ min: 1, max: 300 })).map(([put, times]) => put.repeat(times)),
  },
)

const inserted = (text: string, at: number, put: string): string => {
  const where = at % (text.length + 1)
  return text.slice(0, where) + put + text.slice(where)
}
const cut = (text: string, a: number, b: number): string => {
  const [from, to] = [a % (text.length + 1), b % (text.length + 1)].sort((x, y) => x - y) as [number, number]
  return text.slice(0, from) + text.slice(to)
}
function nested(text: string, which: number): string {
  const [open, close] = [
    ['echo $(', ')'],
    ['echo `', '`'],
    ['echo "$(', ')"'],
    ['(', '\n)'],
    ['{ ', '\n}'],
    ["bash -c '", "'"],
    ['eval "', '"'],
    ['cat <(', ')'],
    ['echo ${x:-', '}'],
    ['[[ -n "$(', ')" ]]'],
    ['f() { ', '\n}; f'],
  ][which] as [string, string]
  return open + text + close
}

/** Text in single quotes, as a shell reads it back. */
export const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
