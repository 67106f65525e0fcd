/** The scripts whose letters are told apart. A letter of another script is in the script `other`. */
const scripts = [
  'Latin',
  'Cyrillic',
  'Greek',
  'Armenian',
  'Georgian',
  'Hebrew',
  'Arabic',
  'Cherokee',
  'Coptic',
  'Lisu',
  'Thai',
  'Devanagari',
] as const
type Script = (typeof scripts)[number] | 'East Asian' | 'other'

const tests: readonly (readonly [Script, RegExp])[] = [
  ...scripts.map((script) => [script, new RegExp(`\\p{Script=${script}}`, 'u')] as const),
  [
    'East Asian',
    /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}]/u,
  ],
]

/**
 * Returns the script of a character. Returns null if the character belongs to several scripts, such as a digit or an
 * accent.
 */
export function scriptOf(character: string): Script | null {
  if (character < '\u0080') return /[A-Za-z]/.test(character) ? 'Latin' : null
  if (!/\p{L}/u.test(character) || /\p{Script=Common}|\p{Script=Inherited}/u.test(character)) return null
  return tests.find(([, test]) => test.test(character))?.[0] ?? 'other'
}

/** Letters of other scripts that look like Latin letters. */
const likeLatin = /^[аеорсухіјѕһԁԛԝӏүѵАВЕЅІЈКМНОРСТУХӀҮѴԌԚԜοναρυικχωϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿօսոհցզԼՍՕ]+$/u

/**
 * Letters and signs of the scripts that are usual in an address, but that hardly anybody uses there: phonetic letters,
 * full-width and mathematical letters.
 */
const unusual = /[\u0250-\u02af\u1d00-\u1dbf\u2160-\u2188\uff01-\uff5e\u{1d400}-\u{1d7ff}]/u

/** A run of letters of one script, inside a word that has a letter of another script, or a letter that looks Latin. */
export interface OddLetters {
  readonly from: number
  readonly text: string
  readonly what: string
}

const words = /(?:(?!\p{Default_Ignorable_Code_Point})[\p{L}\p{M}\p{N}])+/gu

/**
 * Finds the letters of a text that can be taken for others, in words that mix scripts. East Asian letters may stand
 * beside Latin ones, as they do in many names. `strict` also finds whole words that look Latin and are not. `prose`
 * only finds letters that all look like Latin ones: people write `URLами`, but nobody writes `dаta` with another `a`.
 */
export function oddLetters(text: string, reading: 'strict' | 'name' | 'prose'): OddLetters[] {
  return [...text.matchAll(words)].flatMap(({ 0: word, index }) => {
    const odd = oddInWord(word, index, reading === 'strict')
    return reading === 'prose' && odd.some((each) => !likeLatin.test(each.text)) ? [] : odd
  })
}

function oddInWord(word: string, at: number, isStrict: boolean): OddLetters[] {
  const letters = Array.from(word, (letter) => ({ letter, script: scriptOf(letter) }))
  const found = new Set(letters.flatMap(({ script }) => (script === null ? [] : [script])))
  const isLookAlike = isStrict && !found.has('Latin') && likeLatin.test(word.replaceAll(/\p{N}/gu, ''))
  const isMixed = found.size > 2 || (found.size === 2 && !(found.has('Latin') && found.has('East Asian')))
  const usual: Script | null = isLookAlike ? null : found.has('Latin') ? 'Latin' : ([...found][0] ?? null)
  const odd: OddLetters[] = []
  let from = at
  for (const { letter, script } of letters) {
    const isOdd = (isMixed || isLookAlike) && script !== null && script !== usual
    if (isOdd || unusual.test(letter)) add(odd, from, letter, isOdd ? script : 'an unusual letter')
    from += letter.length
  }
  return odd
}

function add(odd: OddLetters[], from: number, letter: string, what: string): void {
  const last = odd.at(-1)
  if (last === undefined || last.what !== what || last.from + last.text.length !== from)
    odd.push({ from, text: letter, what })
  else odd[odd.length - 1] = { ...last, text: last.text + letter }
}
