import { show } from './show.ts'
import { tellStory } from './story.ts'

/*
 * `npm run demo`: one held mail from its rule to its receipt, on the stack that runs on DATA_DIR or on its own. Exits
 * with 0 only if every check held. `npm run demo -- --browser` waits until a person has decided on the approval's page.
 */
const options = process.argv.slice(2)
const unknown = options.find((each) => each !== '--browser')
if (unknown !== undefined) {
  process.stderr.write(`no option \`${unknown}\`: the only one is \`--browser\`\n`)
  process.exit(2)
}
const byPerson = options.includes('--browser')
process.exit(await show('demo', (stage) => tellStory(stage, byPerson)))
