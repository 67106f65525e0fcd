import { proveDomainAsOperator } from '../governance/signin/provider.ts'
import { exitWithUsage, runOperatorProgram } from './operator-program.ts'

/*
 * `npm run prove-domain -- ORGANIZATION DOMAIN` says that a mail domain belongs to an organization, which has named it
 * for its sign-in. It is for domains whose DNS this installation cannot read.
 */

const [organizationId, domain] = process.argv.slice(2)
if (organizationId === undefined || domain === undefined)
  exitWithUsage('npm run prove-domain -- ORGANIZATION DOMAIN')
await runOperatorProgram((context) => proveDomainAsOperator(context, organizationId, domain))
