import '../governance/anything/above.ts'
