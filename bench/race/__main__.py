from bench.race.run import main

main()
