import { z } from 'zod'
import { createOwner } from '../governance/people/create-owner.ts'
import { exitWithUsage, runOperatorProgram } from './operator-program.ts'

/*
 * `npm run create-owner -- EMAIL [ORGANIZATION]` creates the first owner of an installation that has no bootstrap.json.
 * It prints the ids, the password and the API key once, as JSON; the latter two are stored nowhere else.
 */

const [email, organizationName = 'Countersign'] = process.argv.slice(2)
if (!z.email().safeParse(email).success || organizationName.length > 200)
  exitWithUsage('npm run create-owner -- EMAIL [ORGANIZATION]')
await runOperatorProgram((context) => createOwner(context, { email: email as string, organizationName }))
