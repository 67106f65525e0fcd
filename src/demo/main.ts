import { show } from './show.ts'
import { tellStory } from './story.ts'

/*
 * `npm run demo` shows how a mail needs an approval, from the rule to the receipt, on the stack that runs on DATA_DIR
 * or on its own. Exits with 0 only if every check passed. With `-- --browser`, it waits until a person has decided in a
 * browser.
 */
const options = process.argv.slice(2)
const unknown = options.find((each) => each !== '--browser')
if (unknown !== undefined) {
  process.stderr.write(`no option \`${unknown}\`: the only one is \`--browser\`\n`)
  process.exit(2)
}
process.exit(await show('demo', (stage) => tellStory(stage, options.includes('--browser'))))
