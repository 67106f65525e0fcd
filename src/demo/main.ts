import { show } from './show.ts'
import { tellStory } from './story.ts'

/*
 * `npm run demo`: one held mail from its rule to its receipt, on the stack that runs on DATA_DIR or on its own. Exits
 * with 0 only if every check held.
 */
process.exit(await show('demo', tellStory))
