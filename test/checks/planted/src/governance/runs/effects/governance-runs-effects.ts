import '../../anything/above.ts'
